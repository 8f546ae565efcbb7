use std::{fs, sync::Arc};

use tokenizers::{Tokenizer as Inner, models::wordlevel::WordLevel};

use super::*;
use crate::{
    error::TextError,
    pair::SentencePair,
    special::{BOS, EOS, PAD, SPECIAL_TOKENS, UNK},
};

pub(super) const KINDS: [TokenizerKind; 6] = [
    TokenizerKind::Word,
    TokenizerKind::Character,
    TokenizerKind::Byte,
    TokenizerKind::Bpe,
    TokenizerKind::Unigram,
    TokenizerKind::Wordpiece,
];

const SENTENCES: [(&str, &str); 4] = [
    ("The cat's toy is 3.5 cm long.", "Il giocattolo del gatto è lungo 3,5 cm."),
    ("\"Where is the friend?\" he said (twice).", "\"Dov'è l'amico?\" disse lui (due volte)."),
    ("A well-known author!", "Un autore molto noto…"),
    ("Go go go", "Vai vai vai"),
];

fn pairs() -> Vec<SentencePair> {
    SENTENCES.map(|(source, target)| SentencePair::new(source, target)).to_vec()
}

fn config(kind: TokenizerKind, split: WordSplit) -> TokenizerConfig {
    TokenizerConfig { kind, split, ..TokenizerConfig::default() }
}

#[test]
fn every_kind_round_trips() {
    for kind in KINDS {
        for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
            for joint in [false, true] {
                let config = TokenizerConfig { joint, ..config(kind, split) };
                let Tokenizers { source, target } = Tokenizers::train(&config, &pairs()).unwrap();
                for pair in pairs() {
                    let back = source.decode(&source.encode(&pair.source).unwrap()).unwrap();
                    assert_eq!(back, pair.source, "{config:?}");
                    let back = target.decode(&target.encode(&pair.target).unwrap()).unwrap();
                    assert_eq!(back, pair.target, "{config:?}");
                }
            }
        }
    }
}

/// `2024` is in every pair, so that its digits merge by default.
#[test]
fn split_digits_are_single_tokens() {
    let pair = SentencePair::new("In 2024 and (2024), 2024km.", "Nel 2024, 2024.");
    for kind in [TokenizerKind::Bpe, TokenizerKind::Unigram] {
        for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
            let train = |digits| {
                let config = TokenizerConfig { digits, ..config(kind, split) };
                Tokenizers::train(&config, &vec![pair.clone(); 9]).unwrap().source
            };
            let tokens = |tokenizer: &Tokenizer| -> Vec<String> {
                let ids = tokenizer.encode(&pair.source).unwrap();
                assert_eq!(tokenizer.decode(&ids).unwrap(), pair.source);
                ids.iter().map(|id| tokenizer.token(*id).unwrap()).collect()
            };
            let digits = |token: &String| token.chars().filter(char::is_ascii_digit).count();
            let joined = tokens(&train(Digits::Joined));
            assert!(joined.iter().map(digits).max() > Some(1), "{joined:?}");
            let split = tokens(&train(Digits::Split));
            assert_eq!(
                split.iter().filter(|token| token.len() == 1 && digits(token) == 1).count(),
                12
            );
            assert!(split.iter().all(|token| digits(token) <= 1), "{split:?}");
        }
    }
    let word = TokenizerConfig {
        digits: Digits::Split,
        ..config(TokenizerKind::Word, WordSplit::Punctuation)
    };
    assert_eq!(word.problems(), ["`digits` = \"split\" needs `kind` = \"bpe\" or \"unigram\""]);
}

#[test]
fn special_tokens_are_added_after_all_others() {
    let tokens = |tokens: &[&str]| tokens.iter().map(|&token| token.to_owned()).collect::<Vec<_>>();
    for kind in KINDS {
        let config = config(kind, WordSplit::Punctuation);
        let plain = Tokenizers::train(&config, &pairs()).unwrap().source;
        let size = plain.vocab_size();
        let added = plain.clone().with_special_tokens(&tokens(&["<bt>", ">>de<<"])).unwrap();
        assert_eq!(added.vocab_size(), size + 2, "{kind:?}");
        let ids = [added.special_id("<bt>"), added.special_id(">>de<<")];
        assert_eq!(ids, [Some(size as u32), Some(size as u32 + 1)]);
        // The same tokens are added once, also to a tokenizer read from its file.
        let again =
            Tokenizer::from_json(added.to_json().unwrap().as_bytes(), "a".as_ref()).unwrap();
        let again = again.with_special_tokens(&tokens(&[">>de<<"])).unwrap();
        assert_eq!(again.vocab_size(), added.vocab_size());
        assert_eq!(again.special_id(">>de<<"), added.special_id(">>de<<"));
        // Text is never encoded to them, and they are not decoded.
        let text = "Go <bt> go >>de<< go";
        let encoded = added.encode(text).unwrap();
        assert_eq!(encoded, plain.encode(text).unwrap());
        let mut tagged = encoded.clone();
        tagged.insert(0, size as u32 + 1);
        assert_eq!(added.decode(&tagged).unwrap(), added.decode(&encoded).unwrap());
        for (token, of) in [("", "empty"), (&*plain.token(size as u32 - 1).unwrap(), "ordinary")] {
            let refused = plain.clone().with_special_tokens(&tokens(&[token]));
            assert!(matches!(refused, Err(TextError::TokenizerConfig { .. })), "{kind:?} {of}");
        }
    }
}

fn with_bytes(kind: TokenizerKind, split: WordSplit) -> TokenizerConfig {
    TokenizerConfig { byte_fallback: true, vocab_size: 420, ..config(kind, split) }
}

#[test]
fn bytes_leave_no_text_unknown() {
    for kind in [TokenizerKind::Byte, TokenizerKind::Bpe, TokenizerKind::Unigram] {
        for split in [WordSplit::Whitespace, WordSplit::Punctuation] {
            let config = match kind {
                TokenizerKind::Byte => config(kind, split),
                kind => with_bytes(kind, split),
            };
            let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().source;
            for text in
                ["日本語 😀 ¿Qué?", "<unk> <0x41> <eos> x", "\u{1}\u{7f}\u{10ffff}", "Ωmega"]
            {
                let ids = tokenizer.encode(text).unwrap();
                assert!(!ids.contains(&UNK), "{config:?}: {text}");
                assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{config:?}");
            }
        }
    }
    let bytes = Tokenizers::train(&config(TokenizerKind::Byte, WordSplit::Whitespace), &pairs());
    assert_eq!(bytes.unwrap().source.vocab_size(), 4 + 256);
}

/// `é` is two bytes, `a` one.
#[test]
fn a_byte_is_a_token() {
    let config = config(TokenizerKind::Byte, WordSplit::Whitespace);
    let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().source;
    assert_eq!(tokenizer.encode("aé ").unwrap(), [4 + 0x61, 4 + 0xc3, 4 + 0xa9, EOS]);
}

#[test]
fn a_wordpiece_is_marked_if_it_continues_a_word() {
    let config = TokenizerConfig {
        vocab_size: 4 + 4 + 2,
        ..config(TokenizerKind::Wordpiece, WordSplit::Whitespace)
    };
    // `a`, `b` and `##b`, `##a` are the alphabet; `ab` occurs most.
    let pairs = vec![SentencePair::new("ab ab ab aba", "b"); 3];
    let tokenizer = Tokenizers::train(&config, &pairs).unwrap().source;
    let ids = tokenizer.encode("aba").unwrap();
    let tokens: Vec<_> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
    assert_eq!(tokens, ["aba", "<eos>"]);
    let ids = tokenizer.encode("abb").unwrap();
    let tokens: Vec<_> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
    assert_eq!(tokens, ["ab", "##b", "<eos>"]);
    assert_eq!(tokenizer.decode(&ids).unwrap(), "abb");
}

#[test]
fn training_on_a_stream_equals_training_in_memory() {
    for kind in KINDS {
        for joint in [false, true] {
            let config = TokenizerConfig { joint, ..config(kind, WordSplit::Punctuation) };
            let at_once = Tokenizers::train(&config, &pairs()).unwrap();
            let stream = || Ok::<_, TextError>(pairs().into_iter().map(Ok));
            let streamed = Tokenizers::train_on_stream(&config, stream).unwrap();
            let same = |a: &Tokenizer, b: &Tokenizer| a.to_json().unwrap() == b.to_json().unwrap();
            assert!(same(&at_once.source, &streamed.source), "{config:?}");
            assert!(same(&at_once.target, &streamed.target), "{config:?}");
        }
    }
    let broken = || -> Result<_, TextError> {
        let error = TextError::Empty { path: "x".into() };
        Ok([Ok(SentencePair::new("a", "b")), Err(error)].into_iter())
    };
    let error = Tokenizers::train_on_stream(&TokenizerConfig::default(), broken).unwrap_err();
    assert!(matches!(error, TextError::Empty { .. }));
}

#[test]
fn punctuation_is_split_off_and_words_keep_one_id() {
    let config = config(TokenizerKind::Word, WordSplit::Punctuation);
    let pairs = [SentencePair::new("amico", "l'amico, (amico).")];
    let tokenizer = Tokenizers::train(&config, &pairs).unwrap().target;
    let tokens = |text| {
        let ids = tokenizer.encode(text).unwrap();
        ids.into_iter().map(|id| tokenizer.token(id).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(
        tokens("l'amico, (amico)."),
        ["<bos>", "l", "￭'￭", "amico", "￭,", "(￭", "amico", "￭)", "￭.", "<eos>"]
    );
}

#[test]
fn spaces_are_made_single_and_unicode_is_composed() {
    let config = config(TokenizerKind::Character, WordSplit::Whitespace);
    let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().target;
    let ids = tokenizer.encode(" e\u{300}\t\u{a0} lungo \n").unwrap();
    assert_eq!(tokenizer.decode(&ids).unwrap(), "è lungo");
}

#[test]
fn special_tokens_have_their_ids_and_are_added() {
    let config =
        TokenizerConfig { source_bos: true, ..config(TokenizerKind::Word, WordSplit::Whitespace) };
    let with_bos = Tokenizers::train(&config, &pairs()).unwrap();
    for (id, token) in SPECIAL_TOKENS.iter().enumerate() {
        assert_eq!(with_bos.source.token(id as u32).as_deref(), Some(*token));
    }
    let go = with_bos.source.id("go").unwrap();
    assert_eq!(with_bos.source.encode("go").unwrap(), [BOS, go, EOS]);
    let config = TokenizerConfig { source_bos: false, ..config };
    let without = Tokenizers::train(&config, &pairs()).unwrap();
    assert_eq!(without.source.encode("go").unwrap(), [go, EOS]);
    assert_eq!(without.target.encode("").unwrap(), [BOS, EOS]);
}

#[test]
fn a_text_cannot_forge_special_tokens() {
    for kind in KINDS {
        let config = config(kind, WordSplit::Whitespace);
        let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().target;
        let ids = tokenizer.encode("go <eos> <pad> go").unwrap();
        let inside = &ids[1..ids.len() - 1];
        assert!(!inside.iter().any(|id| [PAD, BOS, EOS].contains(id)), "{kind:?}: {ids:?}");
    }
}

#[test]
fn an_unknown_word_is_decoded_as_unk() {
    let config = config(TokenizerKind::Word, WordSplit::Punctuation);
    let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().source;
    let ids = tokenizer.encode("The dog is long.").unwrap();
    assert!(ids.contains(&UNK));
    assert_eq!(tokenizer.decode(&ids).unwrap(), "The <unk> is long.");
}

#[test]
fn rare_and_surplus_words_are_left_out() {
    let pairs = [SentencePair::new("a a a b b c", "x")];
    let base =
        TokenizerConfig { joint: false, ..config(TokenizerKind::Word, WordSplit::Whitespace) };
    let size =
        |config: &TokenizerConfig| Tokenizers::train(config, &pairs).unwrap().source.vocab_size();
    assert_eq!(size(&base), 4 + 3);
    assert_eq!(size(&TokenizerConfig { min_frequency: 2, ..base.clone() }), 4 + 2);
    assert_eq!(size(&TokenizerConfig { vocab_size: 5, ..base.clone() }), 5);
}

#[test]
fn lowercasing_changes_only_the_case() {
    let config = TokenizerConfig {
        lowercase: Lowercase::Both,
        ..config(TokenizerKind::Word, WordSplit::Punctuation)
    };
    let tokenizer = Tokenizers::train(&config, &pairs()).unwrap().source;
    let ids = tokenizer.encode("THE CAT'S toy").unwrap();
    assert_eq!(tokenizer.decode(&ids).unwrap(), "the cat's toy");
}

#[test]
fn a_lowercased_source_leaves_the_target_its_case() {
    let config = TokenizerConfig {
        lowercase: Lowercase::Source,
        joint: false,
        ..config(TokenizerKind::Word, WordSplit::Punctuation)
    };
    let Tokenizers { source, target } = Tokenizers::train(&config, &pairs()).unwrap();
    let written = ["the cat", "The cat", "THE CAT"].map(|text| source.encode(text).unwrap());
    assert!(written.iter().all(|ids| *ids == written[0] && !ids.contains(&UNK)));
    assert_ne!(target.encode("Il").unwrap(), target.encode("il").unwrap());
    let joint = TokenizerConfig { joint: true, ..config };
    assert_eq!(joint.problems(), ["`lowercase` = \"source\" needs `joint` = false"]);
}

#[test]
fn training_again_gives_the_same_file() {
    for kind in KINDS {
        let train = || {
            let config = config(kind, WordSplit::Punctuation);
            Tokenizers::train(&config, &pairs()).unwrap().source.to_json().unwrap()
        };
        assert!(train() == train(), "{kind:?}");
    }
}

#[test]
fn a_saved_tokenizer_opens_as_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    for kind in KINDS {
        let tokenizer =
            Tokenizers::train(&config(kind, WordSplit::Punctuation), &pairs()).unwrap().target;
        fs::write(&path, tokenizer.to_json().unwrap()).unwrap();
        let opened = Tokenizer::open(&path).unwrap();
        for (_, text) in SENTENCES {
            let text = format!("{text} <eos> ¿?");
            assert_eq!(opened.encode(&text).unwrap(), tokenizer.encode(&text).unwrap());
        }
    }
}

/// With the type of the model first, last, and absent.
#[test]
fn a_file_is_read_as_the_library_reads_it() {
    for kind in KINDS {
        let config = config(kind, WordSplit::Punctuation);
        let json = Tokenizers::train(&config, &pairs()).unwrap().target.to_json().unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&json).unwrap();
        let name = value["model"]["type"].take();
        let model = value["model"].as_object_mut().unwrap();
        model.remove("type");
        let without = serde_json::to_string(&value).unwrap();
        let last = format!(",\"type\":{name}}}");
        let model = serde_json::to_string(&value["model"]).unwrap();
        let last = without.replace(&model, &format!("{}{last}", &model[..model.len() - 1]));
        for json in [json, last, without] {
            let expected = Inner::from_bytes(json.as_bytes()).unwrap().to_string(true).unwrap();
            let found = check::open(json.as_bytes()).unwrap();
            assert_eq!(found.to_string(true).unwrap(), expected, "{kind:?}");
            assert_eq!(check::ids(&found), Ok(found.get_vocab_size(true)), "{kind:?}");
        }
    }
}

#[test]
fn a_file_with_other_special_tokens_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let model = WordLevel::builder()
        .vocab([("<pad>".to_owned(), 0), ("<unk>".to_owned(), 1)].into_iter().collect())
        .unk_token("<unk>".into())
        .build()
        .unwrap();
    Inner::new(model).save(&path, false).unwrap();
    let error = Tokenizer::open(&path).unwrap_err().to_string();
    assert!(error.ends_with("`<bos>` must have id 1, found none"), "{error}");

    fs::write(&path, "{").unwrap();
    assert!(matches!(Tokenizer::open(&path), Err(TextError::TokenizerFile { .. })));
}

#[test]
fn a_vocabulary_without_room_is_refused() {
    let config = TokenizerConfig { vocab_size: 4, min_frequency: 0, ..TokenizerConfig::default() };
    let error = Tokenizers::train(&config, &pairs()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "tokenizer: `vocab_size` = 4 leaves no room beside the 4 special tokens; \
         `min_frequency` must be at least 1"
    );
}

/// All pieces of a word have the position of the word in the text; special tokens have none.
#[test]
fn tokens_have_the_positions_of_their_words() {
    let text = "  The cat's  żółw.";
    for (kind, words) in [
        (TokenizerKind::Word, &["The", "cat", "'", "s", "żółw", "."][..]),
        (TokenizerKind::Bpe, &["The", "cat", "'", "s", "żółw", "."]),
    ] {
        let tokenizers =
            Tokenizers::train(&config(kind, WordSplit::Punctuation), &pairs()).unwrap();
        let found = tokenizers.source.encode_with_words(text).unwrap();
        let ids: Vec<u32> = found.iter().map(|token| token.id).collect();
        assert_eq!(ids, tokenizers.source.encode(text).unwrap());
        let mut places: Vec<&str> =
            found.iter().filter_map(|token| Some(&text[token.word.clone()?])).collect();
        places.dedup();
        assert_eq!(places, words, "{kind:?}");
        assert_eq!(found.last(), Some(&WordToken { id: EOS, word: None }));
    }
}

/// A clone copies no vocabulary, and a batch of texts gets the same ids as each text alone.
#[test]
fn clones_share_and_batches_agree() {
    let tokenizers = Tokenizers::train(&TokenizerConfig::default(), &pairs()).unwrap();
    let source = tokenizers.clone().source;
    assert!(Arc::ptr_eq(&source.inner, &tokenizers.source.inner));
    let texts: Vec<&str> = SENTENCES.iter().map(|(source, _)| *source).collect();
    let expected: Vec<Vec<u32>> = texts.iter().map(|text| source.encode(text).unwrap()).collect();
    assert_eq!(source.par_encode_batch(&texts).unwrap(), expected);
    assert_eq!(source.encode_batch(texts).unwrap(), expected);
}
