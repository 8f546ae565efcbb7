// Steps of the computation in their order, and what a student needs to know about each.

/** Steps of one translation: `{ id, title, group, stack, layer, sublayer, kind }`. */
export function stagesOf(data) {
  const stages = [{ id: "tokens", kind: "tokens", title: "Tokens", group: "Encoder" }];
  for (const [stack, group] of [["encoder", "Encoder"], ["decoder", "Decoder"]]) {
    stages.push({ id: `${stack}.embedding`, kind: "embedding", title: "Embedding", group, stack });
    data[stack].layers.forEach((sublayers, layer) => {
      const within = `${group}, layer ${layer + 1}`;
      if (sublayers.length === 0) {
        stages.push({ id: `${stack}.${layer + 1}.off`, kind: "off", title: "Turned off", group: within, stack, layer });
      }
      sublayers.forEach((sublayer, index) => {
        const { kind } = sublayer;
        stages.push({ id: `${stack}.${layer + 1}.${kind}`, kind, title: TITLES[kind], group: within, stack, layer, index });
      });
    });
    stages.push({ id: `${stack}.output`, kind: "stack", title: "Output", group, stack });
  }
  stages.push({ id: "next", kind: "next", title: "Next token", group: "Translation" });
  if (data.beam.length > 0) stages.push({ id: "beam", kind: "beam", title: "Beam search", group: "Translation" });
  return stages;
}

const TITLES = {
  "self-attention": "Self-attention",
  "cross-attention": "Cross-attention",
  "feed-forward": "Feed-forward",
  ssru: "Recurrent unit",
};

/** Explanation of a step: paragraphs, an equation, and the section of "Attention Is All You Need". */
export function explanation({ kind, stack }, { config }) {
  const width = config.d_model;
  const head = width / config.n_heads;
  switch (kind) {
    case "tokens":
      return {
        section: "3.4",
        text: [
          "A tokenizer divides the text into tokens of a fixed vocabulary: words, parts of words, or letters. The model reads their numbers, the ids.",
          "<eos> marks the end of a text. The decoder starts with <bos>, and reads what it has generated so far.",
        ],
      };
    case "embedding":
      return {
        section: "3.4 and 3.5",
        equation: "x = √d_model · E[id] + PE[position]",
        text: [
          `Each id selects a row of the embedding table: ${width} learned numbers. Equal tokens have equal rows, wherever they stand.`,
          "Attention by itself does not know the order of tokens. The vector of the position, which is added, is what distinguishes the first token from the fifth.",
        ],
      };
    case "self-attention":
      return {
        section: stack === "decoder" ? "3.2.1 to 3.2.3" : "3.2.1 and 3.2.2",
        equation: "softmax(Q Kᵀ / √d_k) V",
        text: [
          `Each token asks with its query, and each token answers with its key. The score of a pair is the dot product of the two, divided by √${head}. The softmax turns the scores of a row into weights that sum to 1, and the result is the mean of the values with these weights.`,
          stack === "decoder"
            ? "The mask hides later tokens: their scores are minus infinity, so that their weights are 0. In a translation they do not exist yet; the cache keeps keys and values of the earlier ones, so that each step adds one row."
            : `There are ${config.n_heads} heads with ${head} features each. Every head has its own projections, and can look for something else.`,
        ],
      };
    case "cross-attention":
      return {
        section: "3.2.3",
        equation: "softmax(Q Kᵀ / √d_k) V",
        text: [
          "Queries come from the target so far, keys and values from the output of the encoder: here the translation reads the source.",
          "Keys and values are computed once for a source, and are the same in every step.",
        ],
      };
    case "ssru":
      return {
        section: "Kim et al. 2019, section 3.1",
        equation: "c_t = f_t ⊙ c_{t-1} + (1 - f_t) ⊙ W x_t",
        text: [
          "This model has a recurrent unit in place of the decoder's self-attention. Its state sums up the tokens so far; a gate decides, feature by feature, how much of it remains.",
        ],
      };
    case "feed-forward":
      return {
        section: "3.3",
        equation: "FFN(x) = activation(x W₁ + b₁) W₂ + b₂",
        text: [
          `Each token by itself: ${width} numbers become ${config.d_ff}, pass through a nonlinear function, and become ${width} again. The weights are the same for all tokens of a layer.`,
        ],
      };
    case "off":
      return { section: "3.1", text: ["This layer is turned off: its output is its input."] };
    case "stack":
      return {
        section: "3.1",
        text: stack === "encoder"
          ? ["One vector for each source token, which has seen all others. The decoder reads these and nothing else of the source."]
          : ["One vector for each step, from which the next token is predicted."],
      };
    case "next":
      return {
        section: "3.4",
        equation: "p = softmax(x W + b)",
        text: [
          "The last product gives each token of the vocabulary a score, the logit. The softmax makes probabilities of them.",
          "Select a token of the target above to see the step that generated it.",
        ],
      };
    case "beam":
      return {
        section: "6.1",
        text: [
          "Greedy search takes the likeliest token of each step. Beam search keeps the best few hypotheses: each step continues all of them, and keeps the best continuations.",
          "A column is a step. Solid nodes stay in the beam, framed ones have ended with <eos>, and pale ones are dropped. The score of a hypothesis that has ended is its log-probability, divided by a function of its length.",
        ],
      };
  }
}

/** Explanation of the residual connection around a sub-layer. */
export function residualText({ norm }) {
  switch (norm) {
    case "pre": return "The input is normalized, and the output is added to the input before the normalization (pre-norm).";
    case "sublayer-output": return "The output is normalized and then added to the input.";
    default: return "The output is added to the input, and the sum is normalized (section 3.1, post-norm).";
  }
}
