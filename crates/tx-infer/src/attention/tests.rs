use tx_text::special::EOS;

use super::*;
use crate::Device;

/// ```text
/// rows (0, 1) are one word, columns (0, 1) are one word
///   .5 .3 .2        sum  .8 .2
///   .1 .3 .6   →         .4 .6   mean  .6 .4
///   .0 .9 .1             .9 .1         .9 .1
/// ```
#[test]
fn weights_to_a_word_are_summed_and_weights_from_it_averaged() {
    let map =
        AttentionMap { columns: 3, weights: vec![0.5, 0.3, 0.2, 0.1, 0.3, 0.6, 0.0, 0.9, 0.1] };
    let merged = map.merged(&[0, 0, 1], &[0, 0, 1]);
    assert_eq!(merged.columns, 2);
    for (found, expected) in merged.weights.iter().zip([0.6_f32, 0.4, 0.9, 0.1]) {
        assert!((found - expected).abs() < 1e-6, "{merged:?}");
    }
    assert_eq!(map.merged(&[0, 1, 2], &[0, 1, 2]), map);
}

#[test]
fn the_mean_over_heads_is_the_mean_of_each_weight() {
    let map = |weights: [f32; 2]| AttentionMap { columns: 2, weights: weights.to_vec() };
    assert_eq!(AttentionMap::mean(&[map([1.0, 0.0]), map([0.5, 0.5])]), map([0.75, 0.25]));
    assert_eq!(AttentionMap::mean(&[]), AttentionMap::default());
    assert_eq!(map([0.25, 0.75]).largest(), 0.75);
}

#[test]
fn labels_join_the_pieces_of_a_word_only() {
    let tokens = ["▁ca", "t", "▁", "▁ca", "<eos>", "<eos>"].map(str::to_owned);
    let word_of = [Some(0), Some(0), None, Some(1), None, None];
    let labels = Labels::new(&tokens, &word_of, &["cat".into(), "ca".into()]);
    assert_eq!(labels.groups, [0, 0, 1, 2, 3, 4]);
    assert_eq!(labels.words, ["cat", "_", "ca", "<eos>", "<eos>"]);
    let space = [" ".to_owned(), "\u{ffed}'\u{ffed}".to_owned()];
    assert_eq!(Labels::new(&space, &[None, None], &[]).tokens, ["␣", "\u{ffed}'\u{ffed}"]);
}

fn tokens(ids: &[u32]) -> Tokens {
    let word_of = ids.iter().enumerate();
    Tokens {
        ids: ids.to_vec(),
        tokens: ids.iter().map(u32::to_string).collect(),
        word_of: word_of.map(|(position, &id)| (id != EOS).then_some(position)).collect(),
        words: ids.iter().filter(|&&id| id != EOS).map(u32::to_string).collect(),
    }
}

#[test]
fn every_layer_and_head_has_its_map_and_no_weight_is_in_the_future() {
    let config = tx_model::ModelConfig {
        d_model: 8,
        n_heads: 2,
        d_ff: 8,
        encoder_layers: 1,
        decoder_layers: 3,
        max_len: 8,
        ..Default::default()
    };
    let flex = burn::tensor::Device::flex();
    let vocab = tx_model::VocabSizes { source: 11, target: 11 };
    let model = tx_model::Transformer::new(&config, vocab, &flex).unwrap();
    let attention = |device: &Device| {
        let engine = Engine::from_transformer(model.clone(), 8, device);
        Attention::of(&engine, tokens(&[5, 6, 7, 2]), tokens(&[8, 9, 2]))
    };
    let (packed, tensors) = (attention(&Device::Cpu), attention(&Device::Burn(flex)));
    for kind in AttentionKind::ALL {
        for (packed, tensors) in packed.layers(kind).iter().zip(tensors.layers(kind)) {
            for (packed, tensors) in packed.iter().zip(tensors) {
                assert_eq!(packed.columns, tensors.columns);
                let pairs = packed.weights.iter().zip(&tensors.weights);
                assert!(pairs.into_iter().all(|(a, b)| (a - b).abs() < 1e-5), "{kind:?}");
            }
        }
    }
    for attention in [packed, tensors] {
        has_every_map(&attention);
    }
}

fn has_every_map(attention: &Attention) {
    for (kind, layers, rows, columns) in [
        (AttentionKind::Encoder, 1, vec!["5", "6", "7", "2"], vec!["5", "6", "7", "2"]),
        (AttentionKind::Decoder, 3, vec!["<bos>", "8", "9"], vec!["<bos>", "8", "9"]),
        (AttentionKind::Cross, 3, vec!["8", "9", "2"], vec!["5", "6", "7", "2"]),
    ] {
        let labels = attention.labels(kind);
        assert_eq!(labels.0.tokens, rows, "{kind:?}");
        assert_eq!(labels.1.tokens, columns, "{kind:?}");
        assert_eq!(attention.layers(kind).len(), layers);
        for (layer, heads) in attention.layers(kind).iter().enumerate() {
            assert_eq!(heads.len(), 2);
            for head in [None, Some(0), Some(1)] {
                let map = attention.map(kind, layer, head).unwrap();
                for (row, weights) in map.rows().enumerate() {
                    assert!((weights.iter().sum::<f32>() - 1.0).abs() < 1e-5);
                    let hidden = weights.iter().skip(row + 1).all(|&weight| weight == 0.0);
                    assert!(kind != AttentionKind::Decoder || hidden, "{weights:?}");
                }
            }
        }
        assert!(attention.map(kind, layers, None).is_none());
        assert!(attention.map(kind, 0, Some(2)).is_none());
    }
    let json = attention.to_json();
    assert_eq!(json["cross"]["layers"][2][1][0].as_array().unwrap().len(), 4);
    assert_eq!(json["decoder"]["rows"][0], "<bos>");
}
