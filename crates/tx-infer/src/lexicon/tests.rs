use std::{collections::BTreeSet, fs};

use burn::tensor::Device as BurnDevice;
use tx_model::{DropoutConfig, ModelConfig, Transformer, Tying, VocabSizes};
use tx_text::{SentencePair, TokenizerConfig, TokenizerKind, Tokenizers, special::EOS};

use super::*;
use crate::{
    Bundle, Cancellation, Device, Glossary, GlossaryUse, LexiconUse, Line, ModelTask, ModuleBundle,
    SearchOptions, Translator, bundle::archive, fixture,
};

/// Words of the targets.
const TARGET: &str = "abc bca acb, cab ab 12.";

fn lexicon(tokenizers: &Tokenizers) -> Lexicon {
    let mut builder = LexiconBuilder::default();
    for _ in 0..3 {
        builder.add("a b, b a in Abba", TARGET);
    }
    builder.add("b in Caba b in Baab", "Caba Baab");
    builder.finish(&tokenizers.target).unwrap().unwrap()
}

/// A bundle with random weights and a lexicon. A step takes all of its few tokens into account.
fn bundle() -> ModuleBundle {
    bundle_of(1)
}

/// The same with weights of another seed. The tests need models that write other words without the lexicon.
fn bundle_of(seed: u64) -> ModuleBundle {
    let text = "a b c d abc bca acb cab ab in Abba Caba Baab , . 1 2 A B C";
    let config =
        TokenizerConfig { kind: TokenizerKind::Bpe, vocab_size: 20, ..TokenizerConfig::default() };
    let tokenizers = Tokenizers::train(&config, &[SentencePair::new(text, text)]).unwrap();
    let config = ModelConfig {
        d_model: 16,
        n_heads: 2,
        d_ff: 16,
        encoder_layers: 1,
        decoder_layers: 1,
        max_len: 40,
        tying: Tying::None,
        dropout: DropoutConfig::none(),
        ..ModelConfig::default()
    };
    let vocab = VocabSizes {
        source: tokenizers.source.vocab_size(),
        target: tokenizers.target.vocab_size(),
    };
    let model = Transformer::new(&config, config.padded(vocab), &BurnDevice::flex()).unwrap();
    let model = fixture::random_matrices(model, seed, 0.43);
    ModuleBundle {
        model,
        task: ModelTask::Translate,
        config,
        lexicon: Some(lexicon(&tokenizers).into()),
        tokenizers,
        languages: None,
        context: 0,
        search: Some(SearchOptions { lexicon: LexiconUse::Both, ..SearchOptions::default() }),
        provenance: toml::Table::new(),
    }
}

fn words(text: &str) -> BTreeSet<String> {
    words::words(text).map(lower_case).collect()
}

fn lower_case(word: &str) -> String {
    word.to_lowercase()
}

/// Sources, their translations with this use of the lexicon, and whether these have ended.
fn translations(usage: LexiconUse, options: &SearchOptions) -> Vec<(String, String, bool)> {
    let translator = Translator::from_module(&bundle(), &Device::Cpu);
    let options = SearchOptions { lexicon: usage, ..options.clone() };
    let sources: Vec<String> = (0..40)
        .map(|index| {
            let word =
                |place: usize| ["a", "b", "c", "ab", "abba", "12"][(index * 7 + place * 5) % 6];
            (0..=index % 6).map(word).collect::<Vec<_>>().join(" ")
        })
        .collect();
    let found = translator.translate_batch_with(&sources, &options, &Cancellation::new()).unwrap();
    let ended = |found: &crate::Translation| {
        found.hypotheses.first().is_some_and(|best| best.hypothesis.ids.last() == Some(&EOS))
    };
    let results = found.into_iter().map(|found| (ended(&found), found.text));
    sources.into_iter().zip(results).map(|(source, (ended, text))| (source, text, ended)).collect()
}

/// Words with digits are free. A target at the length limit can end within a word.
#[test]
fn translations_have_words_of_the_lexicon() {
    let known = words(&format!("{TARGET} Caba Baab"));
    for options in [
        SearchOptions::greedy(),
        SearchOptions::default(),
        SearchOptions { beam: 6, groups: 2, ..SearchOptions::default() },
        SearchOptions { renormalize: true, ..SearchOptions::default() },
    ] {
        let others = |usage| {
            let mut others = Vec::new();
            for (source, text, is_whole) in translations(usage, &options) {
                let new: BTreeSet<String> =
                    words(&source).difference(&words("a b in abba")).cloned().collect();
                let mut found: Vec<String> = words::words(&text).map(lower_case).collect();
                if !is_whole {
                    found.pop();
                }
                let is_free = |word: &String| word.contains(char::is_numeric);
                let is_other = |word: &String| !known.contains(word) && !new.contains(word);
                others.extend(found.into_iter().filter(|word| is_other(word) && !is_free(word)));
            }
            others
        };
        assert_eq!(others(LexiconUse::Words), [""; 0], "{options:?}");
        assert!(others(LexiconUse::Off).len() > 10, "{options:?}");
    }
}

/// `Baca` is new and follows a word before names; `Abba` is known, `Caba` a name of the training text.
#[test]
fn names_are_copied() {
    let translator = Translator::from_module(&bundle(), &Device::Cpu);
    let texts = ["b in Baca", "b in Abba", "a Caba", "b Caba b in Baca"];
    for beam in [1, 4] {
        let translate = |usage, texts: &[&str]| {
            let options =
                SearchOptions { lexicon: usage, ..SearchOptions::default() }.with_beam(beam);
            let found = translator.translate_batch_with(texts, &options, &Cancellation::new());
            found.unwrap().into_iter().map(|found| found.text).collect::<Vec<_>>()
        };
        let [off, words] =
            [LexiconUse::Off, LexiconUse::Words].map(|usage| translate(usage, &texts));
        for (usage, without) in [(LexiconUse::Names, off), (LexiconUse::Both, words)] {
            let found = translate(usage, &texts);
            assert!(found[0].contains("Baca") && found[2].contains("Caba"), "{found:?}");
            assert!(found[3].contains("Baca") && found[3].contains("Caba"), "{found:?}");
            assert!(!without[0].contains("Baca") && !without[2].contains("Caba"), "{without:?}");
            // Without a name, nothing changes.
            assert_eq!(found[1], without[1]);
            // Other texts of a batch change nothing.
            for (text, together) in texts.iter().zip(&found) {
                assert_eq!(translate(usage, &[text]), [&**together]);
            }
        }
    }
}

/// The model translates `a b` in some way, and `a` by the first word of it.
#[test]
fn a_known_word_stands_for_a_new_name() {
    let mut bundle = bundle_of(17);
    for beam in [1, 4] {
        let options = SearchOptions { lexicon: LexiconUse::Names, ..SearchOptions::default() };
        let options = SearchOptions { n_best: beam, ..options.with_beam(beam) };
        let translate = |bundle: &ModuleBundle, text| {
            let translator = Translator::from_module(bundle, &Device::Cpu);
            let found = translator.translate_batch_with(&[text], &options, &Cancellation::new());
            found.unwrap().remove(0)
        };
        let known = translate(&bundle, "a b").text;
        let first = words::words(&known).next().unwrap();
        let mut builder = LexiconBuilder::default();
        (0..8).for_each(|_| builder.add("a b", &format!("{first} x")));
        // Names begin sentences.
        for name in ["Kordo", "Lordo", "Mordo"] {
            builder.add(&format!("{name} b"), name);
        }
        bundle.lexicon = builder.finish(&bundle.tokenizers.target).unwrap().map(Into::into);
        let new = translate(&bundle, "Baca b");
        assert_eq!(new.text, known.replacen(first, "Baca", 1));
        let targets = new.hypotheses.iter().map(|found| (&found.hypothesis.ids, &found.text));
        for (ids, text) in targets {
            assert_eq!(ids.iter().filter(|id| **id == EOS).count(), 1, "{text}");
            assert!(text.starts_with("Baca"), "{text}");
        }
    }
}

/// A typo before a term changes its position; a word of a term is none.
#[test]
fn terms_are_found_in_texts_with_typos() {
    let mut bundle = bundle();
    let mut builder = LexiconBuilder::default();
    (0..3).for_each(|_| builder.add("abcdef b in", TARGET));
    let lexicon = builder.finish(&bundle.tokenizers.target).unwrap().unwrap();
    bundle.lexicon = Some(lexicon.into());
    let glossary = Glossary::new([("b", "cab"), ("abcdeff", "bca")]).unwrap();
    for usage in [GlossaryUse::Constrain, GlossaryUse::Inline] {
        let options = SearchOptions { glossary: usage, ..SearchOptions::default() };
        let translator =
            Translator::from_module(&bundle, &Device::Cpu).with_glossary(glossary.clone());
        let translate = |text| {
            let found = translator.translate_batch_with(&[text], &options, &Cancellation::new());
            found.unwrap().remove(0)
        };
        let [typed, meant] = ["abccdef b", "abcdef b"].map(translate);
        assert_eq!(typed.hypotheses, meant.hypotheses);
        let read = if usage.inlines() { "abcdef ⟦ cab ⟧" } else { "abcdef b" };
        assert_eq!(typed.read.as_deref(), Some(read));
        assert_eq!(meant.read.is_some(), usage.inlines());
        assert_eq!((typed.terms.len(), &*typed.terms[0].source), (1, "b"));
        assert_eq!(translate("abcdeff").terms[0].source, "abcdeff");
    }
}

/// A given prefix stays before the names.
#[test]
fn names_follow_a_prefix() {
    let translator = Translator::from_module(&bundle(), &Device::Cpu);
    let lines = [Line { prefix: "cab ab", ..Line::new("b in Baca", 0) }];
    let options = SearchOptions { lexicon: LexiconUse::Names, ..SearchOptions::default() };
    let found = translator.translate_all(&lines, &options, &Cancellation::new()).unwrap();
    assert!(found[0].text.starts_with("cab ab") && found[0].text.contains("Baca"), "{found:?}");
}

#[test]
fn a_bundle_keeps_its_lexicon() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let bundle = bundle();
    bundle.save(path("a")).unwrap();
    let opened = Bundle::open(path("a")).unwrap();
    assert_eq!(opened.lexicon, bundle.lexicon);
    opened.quantize(path("b")).unwrap();
    archive(&path("b"), &path("c.tar")).unwrap();
    assert_eq!(Bundle::open(path("c.tar")).unwrap().lexicon, bundle.lexicon);
    let tokenizer = &bundle.tokenizers.target;
    assert_eq!(
        Lexicon::open(path("b").join(LEXICON), tokenizer).unwrap(),
        **bundle.lexicon.as_ref().unwrap()
    );

    // A bundle without one replaces it.
    ModuleBundle { lexicon: None, ..bundle.clone() }.save(path("b")).unwrap();
    assert!(!path("b").join(LEXICON).exists());
    let without = Translator::open(path("b"), &Device::Cpu).unwrap();
    assert!(!without.has_lexicon());
    without.translate("a b").unwrap();
    // The search of the bundle used it already.
    Bundle::write_lexicon(path("b"), bundle.lexicon.as_ref().unwrap()).unwrap();
    assert_eq!(Bundle::open(path("b")).unwrap().lexicon, bundle.lexicon);
    let error = Bundle::write_lexicon(path("c.tar"), bundle.lexicon.as_ref().unwrap()).unwrap_err();
    assert!(matches!(error, InferError::ArchiveIsFixed { .. }), "{error}");
}

#[test]
fn damaged_lexicons_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let bundle = bundle();
    bundle.save(folder.path()).unwrap();
    let path = folder.path().join(LEXICON);
    let written = fs::read_to_string(&path).unwrap();
    let last = bundle.tokenizers.target.vocab_size();
    for (from, to, problem) in [
        ("{\"format\":1", "{\"format\":2", "its format is 2, expected 1"),
        ("{\"format\":1", "", "expected value"),
        ("\"numbers\":", "\"numbers\":1.5,\"x\":", "unknown field `x`"),
        (
            "\"frequent\":[",
            "\"frequent\":[\"zz\",",
            "the source words are not in ascending order, or one",
        ),
        ("\"capital_starts\":0", "\"capital_starts\":7", "7 is not a share"),
        ("\"counts\":[", "\"counts\":[1,", "counts for"),
        (
            "\"stand_ins\":{\"names\":[]",
            "\"stand_ins\":{\"names\":[\"a\",\"b\",\"c\",\"d\",\"e\"]",
            "it has 5 stand-ins of a kind, expected at most 4",
        ),
        ("\"ids\":[", &format!("\"ids\":[{last},"), "do not ascend to"),
        ("\"ends\":[", "\"ends\":[0,0,", "not in ascending order"),
    ] {
        assert!(written.contains(from), "{from} in {written}");
        fs::write(&path, written.replacen(from, to, 1)).unwrap();
        let error = Bundle::open(folder.path()).unwrap_err().to_string();
        assert!(error.contains("lexicon.json` is not a lexicon of this model"), "{error}");
        assert!(error.contains(problem), "{error}");
    }
}

/// They would take long to compare.
#[test]
fn long_words_are_left_out() {
    let long = "SS".repeat(1 << 15);
    let mut builder = LexiconBuilder::default();
    builder.add(&format!("{long} kurz"), &long);
    let tokenizers = bundle().tokenizers;
    let lexicon = builder.finish(&tokenizers.target).unwrap().unwrap();
    assert!(lexicon.target().is_empty());
    assert_eq!(lexicon.source().new_words(&format!("{long} kurz neu"), 9), ["neu"]);
    let reading = crate::Reading::Adapted;
    let known = Some(lexicon.source());
    assert_eq!(reading.corrected(&long, known, |_| false), long);
    reading.cased(&long, &tokenizers.source, known).unwrap();
}

/// `of` is in all sentences. The only rare number is copied: with four more sentences, the shares are 5/13 of `5`, 5/6 of
/// `7`, and 4/6 of `8`.
#[test]
fn numbers_can_be_words() {
    let mut builder = LexiconBuilder::default();
    for index in (24..1000).chain(0..24) {
        let (source, target) = match index {
            0..4 => ("5 Hunde", "Five of five dogs"),
            4..8 => ("5 Kühe", "five of cows"),
            8 => ("5 Katzen 7", "5 of cats 7"),
            11 => ("7 Esel 1912", "seven donkeys of 1912"),
            12..14 => ("8 Esel", "eight donkeys of"),
            14..24 => ("fünf Esel", "five donkeys of"),
            _ => ("ein Esel", "a donkey of"),
        };
        builder.add(source, target);
    }
    let lexicon = builder.finish(&bundle().tokenizers.target).unwrap().unwrap();
    let source = lexicon.source();
    let words = ["5", "7", "8", "1912"].map(|number| source.number_word(number));
    assert_eq!(words, [Some("five"), None, None, None]);
    assert_eq!(source.copied_names("5 und 7 und 8 und 1912", 9), ["5", "7", "8", "1912"]);
    // Of the sentences with `five` from its third one on, 10 of 16 have `fünf`, which others do not have.
    let texts = source.with_stand_ins("27 Esel", &["27"]);
    let texts: Vec<&str> = texts.iter().map(|with| &*with.text).collect();
    assert_eq!(texts, ["fünf Esel", "ein Esel"]);
}

/// More text than a lexicon is for.
#[test]
fn a_text_of_many_words_has_no_lexicon() {
    let mut builder = LexiconBuilder::default();
    let tokenizers = bundle().tokenizers;
    for index in 0..=MAX_WORDS {
        builder.add(&index.to_string(), "a");
    }
    builder.add("a", "b");
    assert_eq!(builder.finish(&tokenizers.target).unwrap(), None);
}
