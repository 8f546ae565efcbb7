//! Token embedding.

use super::*;

#[test]
fn embedding_with_positions_and_without() {
    let vocabulary = 11;
    for [batch, len, width] in SHAPES {
        let ids: Vec<i32> = (0..batch * len).map(|i| (mix(i as u64) % vocabulary) as i32).collect();
        let ids = TensorData::new(ids, [batch, len]);
        let ids = |device: &Device| Tensor::<2, Int>::from_data(ids.clone(), device);
        for (mask, zero_first) in masks().into_iter().flat_map(|mask| [(mask, false), (mask, true)])
        {
            let sizes = [vocabulary as usize * width, len * width];
            let input = |table: &Tensor<1>| EmbeddingInput {
                zero_first,
                dropout: mask,
                ..plain(shaped(table, [vocabulary as usize, width]), ids(&table.device()))
            };
            check("embedding", &sizes, |inputs| {
                let positions = Some(shaped(&inputs[1], [len, width]));
                flat(embedding(EmbeddingInput { positions, scale: 1.7, ..input(&inputs[0]) }))
            });
            check("embedding without positions", &sizes[..1], |inputs| {
                flat(embedding(input(&inputs[0])))
            });
        }
    }
}

/// Two rows of two tokens, with d_model 2, scale 3 and positions (1, 1) and (2, 2). The first token
/// of a row has its position only, and its row of the table, 5, gets no gradient.
#[test]
fn a_first_token_with_the_zero_vector_by_hand() {
    for implementation in [Implementation::Kernel, Implementation::Reference] {
        let device = implementation.device();
        let table = (0..12).map(|i| i as f32).collect::<Vec<_>>();
        let table = Tensor::<2>::from_data(TensorData::new(table, [6, 2]), &device).require_grad();
        let ids = Tensor::<2, Int>::from_data([[5, 1], [5, 0]], &device);
        let embedded = embedding(EmbeddingInput {
            positions: Some(Tensor::from_data([[1.0, 1.0], [2.0, 2.0]], &device)),
            scale: 3.0,
            zero_first: true,
            ..plain(table.clone(), ids)
        });
        let gradients = embedded.clone().sum().backward();
        let expected = TensorData::from([[[1.0, 1.0], [8.0, 11.0]], [[1.0, 1.0], [2.0, 5.0]]]);
        embedded.into_data().convert::<f64>().assert_eq(&expected, true);
        let gradient = table.grad(&gradients).unwrap().into_data().convert::<f64>();
        let expected = [[3.0, 3.0], [3.0, 3.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [0.0, 0.0]];
        gradient.assert_eq(&TensorData::from(expected), true);
    }
}
