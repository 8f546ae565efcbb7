// Short tours: questions of students, and the views that answer them.

export const TOURS = [
  {
    id: "scale",
    title: "Why √d_k?",
    steps: [
      {
        view: { stage: "encoder.1.self-attention", head: 1, cell: [0, 0] },
        text: "A score is the sum of d_k products. If the numbers of queries and keys have variance 1, the sum has variance d_k: with more features, scores grow.",
      },
      {
        view: { stage: "encoder.1.self-attention", head: 1, cell: [0, 0] },
        text: "Dividing by √d_k brings the variance back to 1, whatever the number of features. The list below the cell shows the sum, and the score after the division.",
      },
      {
        view: { stage: "encoder.1.self-attention", head: 1, scaled: false },
        text: "“What if?” shows the weights without the division. Large scores make the softmax choose one key: its weights approach 0 and 1, where its gradient is nearly 0, and the head learns slowly (section 3.2.1).",
      },
    ],
  },
  {
    id: "mask",
    title: "What does the mask hide?",
    steps: [
      {
        view: { stage: "decoder.1.self-attention", head: 1, step: 99 },
        text: "Row i is what the decoder does when it has read i tokens. Its scores for later tokens are −∞, so their weights are 0. All rows can be trained at once, although each must not know what comes next.",
      },
      {
        view: { stage: "decoder.1.self-attention", head: 1, step: 99, mask: "none" },
        text: "Without the mask, as “What if?” shows, a row gives weight to later tokens. In training these contain the very token that the row is to predict.",
      },
      {
        view: { stage: "decoder.1.self-attention", head: 1, step: 99, mask: "after" },
        text: "A mask after the softmax removes these weights too late: the rows no longer sum to 1, and how much is missing tells something about the tokens that were to be hidden.",
      },
    ],
  },
  {
    id: "position",
    title: "What does position add?",
    steps: [
      {
        view: { stage: "encoder.embedding" },
        text: "The first strip depends on the token only: equal tokens have equal rows. A model that saw nothing else could not tell “dog bites man” from “man bites dog”.",
      },
      {
        view: { stage: "encoder.embedding" },
        text: "The second strip depends on the position only. Fast waves on the left, slow ones on the right: together they are different for each position, and alike for near ones, as the matrix below shows.",
      },
      {
        view: { stage: "encoder.1.self-attention" },
        text: "The sum is what attention sees. Heads can use either part: some look for a meaning, others for a neighbor. Heads of the second kind have a diagonal.",
      },
    ],
  },
  {
    id: "head",
    title: "What does a head do?",
    steps: [
      {
        view: { stage: "decoder.1.cross-attention", step: 99 },
        text: "Each small picture is a head: a row for each token that is generated, a column for each source token. In the model “reverse”, which writes words backwards, look for a head with an anti-diagonal: it points at the letter that comes next.",
      },
      {
        view: { stage: "decoder.1.cross-attention", head: 1, step: 99 },
        text: "Select that head, turn it off, and watch the target: if the letters go wrong, no other head does its work. Heads that change nothing are spare; many trained models have such heads (Michel et al. 2019).",
      },
    ],
  },
  {
    id: "beam",
    title: "Why is beam 4 not greedy?",
    steps: [
      {
        view: { stage: "next", step: 0 },
        text: "Greedy search takes the likeliest first token and never returns. If two tokens are almost equally likely, the decision hangs on a hair.",
      },
      {
        view: { stage: "beam" },
        text: "Beam search keeps several beginnings, and continues all of them. One that begins worse can end better: a node that is not first in its column may be part of the best hypothesis.",
      },
      {
        view: { stage: "beam" },
        text: "Longer hypotheses have lower probabilities, because each token multiplies by a number below 1. The score divides by a function of the length, so that short translations do not win for being short.",
      },
    ],
  },
];
