//! Import of fairseq's `transformer`: a checkpoint, and the dictionaries of both sides beside it.
//!
//! Sources end with `</s>`, the decoder starts with `</s>`, and positions are numbered from 2.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    path::{Path, PathBuf},
    sync::Arc,
};

use tx_infer::SearchOptions;
use tx_model::{
    Activation, DecoderStart, DropoutConfig, EmbeddingScale, Init, ModelConfig, NormPlacement,
    Positions, SinusoidFormula, SinusoidLayout, Sinusoids, Tying, VocabSizes,
};
use tx_text::{
    Ends, Tokenizers, sentencepiece_pieces,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

use super::{
    Import, ImportFormat, ImportOptions,
    content::files,
    side_tokens::{Division, Listed, SideTokens, division_note},
    tutorial::checkpoint,
    weight_map::{VocabularyNames, WeightMap},
};
use crate::{
    error::ConvertError,
    rows::RowOrder,
    source_files::SourceFiles,
    tensors::{Scalar, Tensors},
};

/// Key of the weights in a checkpoint.
const KEY: &str = "model";
/// Dictionaries with options: of old checkpoints, and of the model, the task and the division of words.
const DICTIONARIES: [&[&str]; 4] =
    [&["args"], &["cfg", "model"], &["cfg", "task"], &["cfg", "bpe"]];
/// Options that the import reads.
const OPTIONS: [&str; 12] = [
    "activation_fn",
    "decoder_attention_heads",
    "encoder_attention_heads",
    "max_source_positions",
    "no_scale_embedding",
    "no_token_positional_embeddings",
    "sentencepiece_model",
    "share_all_embeddings",
    "share_decoder_input_output_embed",
    "source_lang",
    "target_lang",
    "bpe_codes",
];
/// Heads of a model without options, as `transformer` has them.
const HEADS: usize = 8;
/// Largest sequence of a model without options.
const LENGTH: usize = 1_024;
/// Position of the first token: the id of `<pad>`, and one more.
const FIRST_POSITION: usize = 2;
/// Special tokens, in the order of their ids.
const SPECIAL: [&str; 4] = ["<s>", "<pad>", "</s>", "<unk>"];
/// Name of a SentencePiece model in published folders.
const SENTENCEPIECE: &str = "sentencepiece.bpe.model";
const EMBEDDINGS: [&str; 2] = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"];
const POSITIONS: [&str; 2] = ["encoder.embed_positions.weight", "decoder.embed_positions.weight"];

/// Returns `true` if a file of PyTorch has the weights of fairseq's encoder.
pub(super) fn is_checkpoint(path: &Path) -> bool {
    let names = Tensors::pytorch_names(path, Some(KEY));
    names.is_ok_and(|names| names.iter().any(|name| name == EMBEDDINGS[0]))
}

/// Options of a checkpoint.
struct Options(BTreeMap<&'static str, Scalar>);

impl Options {
    fn text(&self, name: &str) -> Option<&str> {
        match self.0.get(name)? {
            Scalar::Text(text) => Some(text),
            Scalar::Bool(_) | Scalar::Int(_) => None,
        }
    }

    fn number(&self, name: &str) -> Option<usize> {
        match self.0.get(name)? {
            Scalar::Int(number) => usize::try_from(*number).ok(),
            Scalar::Bool(_) | Scalar::Text(_) => None,
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.0.get(name) == Some(&Scalar::Bool(true))
    }
}

/// Reads a checkpoint, or the last file of PyTorch in a folder, and the files beside it.
///
/// # Errors
///
/// If a file is missing or damaged, the model has options that tx does not support, or its weights do
/// not fit them.
pub(super) fn read(from: &Path, options: &ImportOptions) -> Result<Import, ConvertError> {
    let (mut sources, mut notes) = (SourceFiles::default(), Vec::new());
    let path = checkpoint(from, &mut notes)?;
    sources.add(&path)?;
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let tensors = Arc::new(Tensors::open_pytorch(&path, Some(KEY))?);
    let given = Options(Tensors::pytorch_options(&path, &DICTIONARIES, &OPTIONS)?);
    let unsupported = |problems| ConvertError::Unsupported { path: path.clone(), problems };
    let mut config = config(&tensors, &given, options, &mut notes).map_err(unsupported)?;

    let pair = languages(folder, &tensors, &given, options)?.ok_or_else(|| {
        unsupported(vec![
            "it does not name its languages; pass `--source-language LANG` and \
             `--target-language LANG`, as in `dict.LANG.txt`"
                .to_owned(),
        ])
    })?;
    // A file names its languages, and they name files.
    if let Some(code) = pair.iter().find(|code| code.contains(['/', '\\'])) {
        return Err(unsupported(vec![format!("`{code}` is not the code of a language")]));
    }
    let [source, target] = sides(folder, &tensors, &given, &pair, &mut sources)?;
    if config.tying == Tying::All && source.tokens != target.tokens {
        let problem = "`share_all_embeddings` needs equal dictionaries of both sides".to_owned();
        return Err(unsupported(vec![problem]));
    }
    let codes = given.text("bpe_codes").and_then(|path| Path::new(path).file_name()?.to_str());
    notes.extend(division_note([&source, &target], codes));
    let tokenizers = Tokenizers {
        source: source.tokenizer(Ends::SOURCE)?,
        target: target.tokenizer(Ends::BOTH)?,
    };
    let vocab = VocabSizes { source: source.order.len(), target: target.order.len() };
    config.check(vocab).map_err(|error| unsupported(error.problems))?;
    let mut map = WeightMap::new(tensors);
    add_weights(&mut map, &mut config, [&source.order, &target.order]);
    let weights = map.finish(&config, vocab)?;

    let mut import =
        Import::new(ImportFormat::Fairseq, &path, &sources, config, tokenizers, weights);
    import.search = Some(search());
    import.pair = Some(pair);
    import.notes = notes;
    Ok(import)
}

/// Search options of `fairseq-generate`: `--beam 5 --lenpen 1 --max-len-a 0 --max-len-b 200`.
fn search() -> SearchOptions {
    SearchOptions {
        beam: 5,
        length_penalty: 1.0,
        max_len_ratio: 0.0,
        max_len_extra: 200,
        min_len: 1,
        max_repeats: 0,
        ..SearchOptions::default()
    }
}

/// Configuration of the bundle.
///
/// # Errors
///
/// The options that tx does not have.
fn config(
    tensors: &Tensors,
    given: &Options,
    options: &ImportOptions,
    notes: &mut Vec<String>,
) -> Result<ModelConfig, Vec<String>> {
    let mut problems = Vec::new();
    let has = |name: &str| tensors.get(name).is_some();
    let size = |name: &str, dimension: usize| {
        let size = tensors.get(name).and_then(|tensor| tensor.shape.get(dimension).copied());
        size.unwrap_or_default()
    };
    let layers = ["encoder", "decoder"].map(|stack| {
        (0..).take_while(|layer| has(&format!("{stack}.layers.{layer}.fc1.weight"))).count()
    });
    let norms = ["encoder", "decoder"].map(|stack| has(&format!("{stack}.layer_norm.weight")));
    if norms[0] != norms[1] {
        problems.push("one of encoder and decoder has a norm after its layers".to_owned());
    }
    let learned = POSITIONS.map(has);
    if learned[0] != learned[1] {
        problems.push("one of encoder and decoder has learned positions".to_owned());
    }
    let heads = ["encoder_attention_heads", "decoder_attention_heads"].map(|it| given.number(it));
    if heads[0] != heads[1] {
        problems
            .push(format!("the encoder has {:?} heads, and the decoder {:?}", heads[0], heads[1]));
    }
    let heads = heads[0].or(options.heads).unwrap_or_else(|| {
        notes.push(format!(
            "the file does not contain the number of heads: {HEADS}, as `transformer` has, is used; \
             `--heads N` selects another"
        ));
        HEADS
    });
    let activation = match given.text("activation_fn") {
        None | Some("relu") => Activation::Relu,
        Some("gelu") => Activation::Gelu,
        Some("swish") => Activation::Swish,
        Some(other) => {
            problems.push(format!(
                "`activation_fn` is `{other}`, supported are `relu`, `gelu` and `swish`"
            ));
            Activation::Relu
        }
    };
    let (positions, max_len) = match learned[0] {
        _ if given.flag("no_token_positional_embeddings") => (Positions::None, None),
        true => (Positions::Learned, Some(size(POSITIONS[0], 0).saturating_sub(FIRST_POSITION))),
        false => (Positions::Sinusoidal, None),
    };
    let shared =
        [given.flag("share_all_embeddings"), given.flag("share_decoder_input_output_embed")];
    let config = ModelConfig {
        d_model: size(EMBEDDINGS[0], 1),
        n_heads: heads,
        d_ff: size("encoder.layers.0.fc1.weight", 0),
        encoder_layers: layers[0],
        decoder_layers: layers[1],
        max_len: max_len.or(given.number("max_source_positions")).unwrap_or(LENGTH),
        norm: if norms[0] { NormPlacement::Pre } else { NormPlacement::Post },
        norm_epsilon: 1e-5,
        positions,
        sinusoids: Sinusoids {
            layout: SinusoidLayout::Halves,
            formula: SinusoidFormula::Tensor2tensor,
            first: FIRST_POSITION,
        },
        decoder_start: DecoderStart::Eos,
        activation,
        tying: match shared {
            [true, _] => Tying::All,
            [false, true] => Tying::Decoder,
            // Old checkpoints have no projection if it is shared.
            [false, false] if projection(has).is_none() => Tying::Decoder,
            [false, false] => Tying::None,
        },
        embedding_scale: match given.flag("no_scale_embedding") {
            true => EmbeddingScale::None,
            false => EmbeddingScale::Both,
        },
        output_bias: false,
        init: Init::XavierUniform,
        dropout: DropoutConfig { embedding: 0.1, residual: 0.1, ..DropoutConfig::none() },
        ..ModelConfig::default()
    };
    match problems.is_empty() {
        true => Ok(config),
        false => Err(problems),
    }
}

/// Name of the projection.
fn projection(has: impl Fn(&str) -> bool) -> Option<&'static str> {
    ["decoder.output_projection.weight", "decoder.embed_out"].into_iter().find(|name| has(name))
}

/// Languages of source and target: those that the caller or the file names, otherwise those of the two
/// dictionaries in the folder, if their numbers of tokens fit the embeddings in one order only.
fn languages(
    folder: &Path,
    tensors: &Tensors,
    given: &Options,
    options: &ImportOptions,
) -> Result<Option<[String; 2]>, ConvertError> {
    let source = options.source_language.as_deref().or(given.text("source_lang"));
    let target = options.target_language.as_deref().or(given.text("target_lang"));
    if let (Some(source), Some(target)) = (source, target) {
        return Ok(Some([source, target].map(str::to_owned)));
    }
    let mut found = Vec::new();
    for path in files(folder)? {
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let Some(language) = name.strip_prefix("dict.").and_then(|it| it.strip_suffix(".txt"))
        else {
            continue;
        };
        let content = SourceFiles::default().bytes(&path)?;
        let lines = content.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).count();
        found.push((language.to_owned(), lines + SPECIAL.len()));
    }
    let [(first, tokens), (second, other_tokens)] = &found[..] else { return Ok(None) };
    let rows = EMBEDDINGS.map(|name| tensors.get(name).and_then(|it| it.shape.first().copied()));
    let fits = |source: &usize, target: &usize| rows == [Some(*source), Some(*target)];
    Ok(match (fits(tokens, other_tokens), fits(other_tokens, tokens)) {
        (true, false) => Some([first.clone(), second.clone()]),
        (false, true) => Some([second.clone(), first.clone()]),
        (true, true) | (false, false) => None,
    })
}

/// Dictionaries and tokenizers of both sides.
fn sides(
    folder: &Path,
    tensors: &Tensors,
    given: &Options,
    languages: &[String; 2],
    files: &mut SourceFiles,
) -> Result<[SideTokens; 2], ConvertError> {
    let named = given.text("sentencepiece_model").and_then(|path| Path::new(path).file_name());
    let models = [named.map(|name| folder.join(name)), Some(folder.join(SENTENCEPIECE))];
    let model = models.into_iter().flatten().find(|path| path.is_file());
    let model: Option<(PathBuf, Vec<u8>)> = match model {
        Some(path) => Some((path.clone(), files.bytes(&path)?)),
        None => None,
    };
    let mut names = [""; SPECIAL_TOKENS.len()];
    for (id, name) in [BOS, PAD, EOS, UNK].into_iter().zip(SPECIAL) {
        names[id as usize] = name;
    }
    let mut side = |language: &str, table: &str| {
        let path = folder.join(format!("dict.{language}.txt"));
        let problem = |problem: String| ConvertError::File { path: path.clone(), problem };
        let text = String::from_utf8(files.bytes(&path)?)
            .map_err(|_| problem("it is not UTF-8".to_owned()))?;
        let tokens = dictionary(&text).map_err(problem)?;
        let division = match &model {
            Some((path, model)) => {
                sentencepiece_pieces(model).map_err(|error| ConvertError::File {
                    path: path.clone(),
                    problem: error.to_string(),
                })?;
                Division::SentencePiece(model.clone())
            }
            None => Division::Words,
        };
        let rows = tensors.get(table).and_then(|table| table.shape.first().copied());
        let special = SPECIAL.map(str::to_owned).to_vec();
        let listed = Listed { tokens, special, division };
        SideTokens::new(listed, rows.unwrap_or_default(), names, &path).map_err(problem)
    };
    Ok([side(&languages[0], EMBEDDINGS[0])?, side(&languages[1], EMBEDDINGS[1])?])
}

/// Tokens of a dictionary in the order of their ids: the special tokens, then a token and its count on
/// each line.
///
/// # Errors
///
/// If a line has another form.
fn dictionary(text: &str) -> Result<Vec<String>, String> {
    let mut tokens = SPECIAL.map(str::to_owned).to_vec();
    for (number, line) in text.split_terminator('\n').enumerate() {
        let line = line.trim_end();
        let line = line.strip_suffix(" #fairseq:overwrite").unwrap_or(line);
        let token = line.rsplit_once(' ').filter(|(_, count)| count.parse::<u64>().is_ok());
        let (token, _) =
            token.ok_or_else(|| format!("line {}: it has no token and count", number + 1))?;
        tokens.push(token.to_owned());
    }
    Ok(tokens)
}

/// Adds all weights.
fn add_weights(map: &mut WeightMap, config: &mut ModelConfig, orders: [&RowOrder; 2]) {
    let projection = projection(|name| map.has(name)).unwrap_or(EMBEDDINGS[1]);
    let names = VocabularyNames {
        source_embedding: EMBEDDINGS[0],
        target_embedding: EMBEDDINGS[1],
        projection,
        bias: "decoder.output_projection.bias",
    };
    map.vocabularies(config, names, orders, orders[1]);
    let ModelConfig { d_model, d_ff, max_len, .. } = *config;
    for (stack, (input, table)) in
        ["encoder", "decoder"].iter().zip(["source_input", "target_input"].iter().zip(POSITIONS))
    {
        map.ignore(&format!("{stack}.version"));
        match config.positions {
            Positions::Learned => {
                let rows = FIRST_POSITION..max_len + FIRST_POSITION;
                let rows: RowOrder = rows.map(|row| u32::try_from(row).ok()).collect();
                let shape = [max_len + FIRST_POSITION, d_model];
                map.rows(&format!("{input}.positions.learned"), table, shape, &rows);
            }
            // A buffer of one number.
            _ => map.ignore(&format!("{stack}.embed_positions._float_tensor")),
        }
    }
    let norm = |map: &mut WeightMap, ours: String, theirs: String| {
        for (our, their) in [("gamma", "weight"), ("beta", "bias")] {
            map.copy(&format!("{ours}.{our}"), &format!("{theirs}.{their}"), &[d_model]);
        }
    };
    for (stack, layers) in [("encoder", config.encoder_layers), ("decoder", config.decoder_layers)]
    {
        if map.has(&format!("{stack}.layer_norm.weight")) {
            norm(map, format!("{stack}.norm"), format!("{stack}.layer_norm"));
        }
        for layer in (0..layers).map(|layer| format!("{stack}.layers.{layer}")) {
            add_attention(
                map,
                d_model,
                &format!("{layer}.self_attention"),
                &format!("{layer}.self_attn"),
            );
            norm(
                map,
                format!("{layer}.self_attention_residual.norm"),
                format!("{layer}.self_attn_layer_norm"),
            );
            if stack == "decoder" {
                let (our, their) =
                    (format!("{layer}.cross_attention"), format!("{layer}.encoder_attn"));
                add_attention(map, d_model, &our, &their);
                norm(map, format!("{our}_residual.norm"), format!("{their}_layer_norm"));
            }
            let our = format!("{layer}.feed_forward");
            for (part, their, size) in
                [("inner", "fc1", [d_model, d_ff]), ("outer", "fc2", [d_ff, d_model])]
            {
                let names = ["weight", "bias"].map(|it| format!("{layer}.{their}.{it}"));
                map.linear_parts(&our, &[part], names, size);
            }
            norm(map, format!("{our}_residual.norm"), format!("{layer}.final_layer_norm"));
        }
    }
}

/// Adds an attention. Old checkpoints have one matrix for queries, keys and values.
fn add_attention(map: &mut WeightMap, d_model: usize, ours: &str, theirs: &str) {
    let inputs = ["weight", "bias"].map(|it| format!("{theirs}.in_proj_{it}"));
    if map.has(&inputs[0]) {
        map.linear_parts(ours, &["query", "key", "value"], inputs, [d_model; 2]);
    } else {
        for (part, letter) in [("query", "q"), ("key", "k"), ("value", "v")] {
            let names = ["weight", "bias"].map(|it| format!("{theirs}.{letter}_proj.{it}"));
            map.linear_parts(ours, &[part], names, [d_model; 2]);
        }
    }
    let output = ["weight", "bias"].map(|it| format!("{theirs}.out_proj.{it}"));
    map.linear_parts(ours, &["output"], output, [d_model; 2]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_dictionary_have_a_token_and_a_count() {
        let found = dictionary("the 12\na b 3\n<s> 1 #fairseq:overwrite\n").unwrap();
        assert_eq!(found[..4], SPECIAL);
        assert_eq!(found[4..], ["the", "a b", "<s>"]);
        assert_eq!(dictionary("the 12\ncat\n").unwrap_err(), "line 2: it has no token and count");
        assert!(dictionary("the x\n").is_err());
    }
}
