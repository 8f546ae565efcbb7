//! Burn's operations that the model uses, one at a time. If a model differs, these tests show the
//! operation.

use burn::tensor::{
    Bool, Device, Int, Tensor, TensorData,
    activation::{relu, silu, softmax},
    module,
};

use super::{SCORES, checked};
use crate::{
    invariants::{difference, noise},
    support::values,
};

/// Lists every operation that differs, not only the first.
#[test]
fn operations() {
    let mut wrong = Vec::new();
    for (name, device) in checked() {
        for (operation, run) in all() {
            let (found, expected) = (run(&device), run(&Device::flex()));
            assert_eq!(found.shape(), expected.shape(), "{name}: {operation}");
            let difference = difference(&values(&found), &values(&expected));
            if difference > SCORES {
                wrong.push(format!("{name}: {operation} differs by {difference:.1e}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

type Operation = fn(&Device) -> TensorData;

fn all() -> Vec<(&'static str, Operation)> {
    vec![
        // Elementwise operations.
        ("+", |d| (x(d) + y(d)).into_data()),
        ("-", |d| (x(d) - y(d)).into_data()),
        ("*", |d| (x(d) * y(d)).into_data()),
        ("/", |d| (x(d) / (y(d) + 2.0)).into_data()),
        ("+ a row", |d| (x(d) + row(d)).into_data()),
        ("* a column", |d| (x(d) * column(d)).into_data()),
        ("+ of swapped axes", |d| (x(d).swap_dims(1, 2) + y(d).swap_dims(1, 2)).into_data()),
        ("* a number", |d| (x(d) * 1.7).into_data()),
        ("1 / x", |d| (x(d) + 2.0).recip().into_data()),
        ("exp", |d| x(d).exp().into_data()),
        ("log", |d| (x(d) + 2.0).log().into_data()),
        ("sqrt", |d| (x(d) + 2.0).sqrt().into_data()),
        ("square", |d| x(d).square().into_data()),
        ("erf", |d| x(d).erf().into_data()),
        ("relu", |d| relu(x(d)).into_data()),
        ("swish", |d| silu(x(d)).into_data()),
        // Reductions along an axis.
        ("sum", |d| x(d).sum().into_data()),
        ("sum of rows", |d| x(d).sum_dim(2).into_data()),
        ("sum of columns", |d| x(d).sum_dim(0).into_data()),
        ("sum in the middle", |d| x(d).sum_dim(1).into_data()),
        ("mean of rows", |d| x(d).mean_dim(2).into_data()),
        ("maximum of rows", |d| x(d).max_dim(2).into_data()),
        ("argmax of rows", |d| x(d).argmax(2).float().into_data()),
        ("top 3", |d| x(d).topk_with_indices(3, 2).0.into_data()),
        ("indices of the top 3", |d| x(d).topk_with_indices(3, 2).1.float().into_data()),
        ("softmax", |d| softmax(x(d), 2).into_data()),
        ("softmax of swapped axes", |d| softmax(x(d).swap_dims(1, 2), 2).into_data()),
        ("layer norm", |d| module::layer_norm(x(d), weight(d), Some(weight(d)), 1e-5).into_data()),
        // Matrix products.
        ("product", |d| matrix(7, 12, d).matmul(matrix(12, 9, d)).into_data()),
        ("product of larger matrices", |d| {
            matrix(70, 66, d).matmul(matrix(66, 130, d)).into_data()
        }),
        ("product with a vector", |d| matrix(1, 12, d).matmul(matrix(12, 9, d)).into_data()),
        ("product, right transposed", |d| {
            matrix(7, 12, d).matmul(matrix(9, 12, d).transpose()).into_data()
        }),
        ("product, left transposed", |d| {
            matrix(12, 7, d).transpose().matmul(matrix(12, 9, d)).into_data()
        }),
        ("products side by side", |d| x(d).matmul(y(d).transpose()).into_data()),
        ("products of heads", |d| {
            let q = heads(d);
            q.clone().matmul(q.transpose()).into_data()
        }),
        ("linear", |d| module::linear(x(d), matrix(12, 9, d), Some(vector(9, d))).into_data()),
        ("linear without bias", |d| module::linear(x(d), matrix(12, 9, d), None).into_data()),
        // Data movement.
        ("reshape", |d| x(d).reshape([10, 18]).into_data()),
        ("heads", |d| heads(d).into_data()),
        ("heads and back", |d| heads(d).swap_dims(1, 2).reshape([3, 5, 12]).into_data()),
        ("permute", |d| x(d).permute([2, 0, 1]).into_data()),
        ("narrow", |d| x(d).narrow(2, 3, 5).into_data()),
        ("cat in front", |d| Tensor::cat(vec![x(d), y(d)], 0).into_data()),
        ("cat at the end", |d| Tensor::cat(vec![x(d), y(d)], 2).into_data()),
        ("cat in the middle", |d| Tensor::cat(vec![x(d), y(d)], 1).into_data()),
        ("expand", |d| row(d).expand([3, 5, 12]).into_data()),
        ("embedding", |d| module::embedding(matrix(11, 12, d), ids(d)).into_data()),
        ("select", |d| x(d).select(0, Tensor::from_ints([2, 0, 0, 1], d)).into_data()),
        ("gather", |d| matrix(3, 11, d).gather(1, ids(d)).into_data()),
        // Masks.
        ("mask", |d| mask(d).float().into_data()),
        ("not", |d| mask(d).bool_not().float().into_data()),
        ("mask selected", |d| {
            let rows = Tensor::from_ints([2, 0, 1], d);
            mask(d).int().select(0, rows).equal_elem(1).float().into_data()
        }),
        ("filled", |d| matrix(3, 5, d).mask_fill(mask(d), 9.0).into_data()),
        ("filled, mask broadcast", |d| {
            x(d).mask_fill(mask(d).unsqueeze_dim::<3>(2), 9.0).into_data()
        }),
        ("filled, two broadcast", |d| {
            let blocked = mask(d).reshape([3, 1, 1, 5]);
            let scores = heads(d).matmul(heads(d).transpose());
            scores.mask_fill(blocked, -1e4).into_data()
        }),
        // Gradients.
        ("gradient of a product", |d| {
            let w = matrix(12, 9, &d.clone().autodiff()).require_grad();
            let x = x(&d.clone().autodiff());
            gradient(&w, module::linear(x, w.clone(), None).square().sum())
        }),
        ("gradient of an embedding", |d| {
            let table = matrix(11, 12, &d.clone().autodiff()).require_grad();
            let ids = ids(&d.clone().autodiff());
            gradient(&table, module::embedding(table.clone(), ids).square().sum())
        }),
        ("gradient of softmax", |d| {
            let x = x(&d.clone().autodiff()).require_grad();
            gradient(&x, (softmax(x.clone(), 2) * y(&d.clone().autodiff())).sum())
        }),
        ("gradient of layer norm", |d| {
            let d = &d.clone().autodiff();
            let x = x(d).require_grad();
            let normed = module::layer_norm(x.clone(), weight(d), Some(weight(d)), 1e-5);
            gradient(&x, (normed * y(d)).sum())
        }),
        ("gradient of a gather", |d| {
            let d = &d.clone().autodiff();
            let x = matrix(3, 11, d).require_grad();
            gradient(&x, x.clone().gather(1, ids(d)).square().sum())
        }),
    ]
}

/// Tensor `[3, 5, 12]`.
fn x(device: &Device) -> Tensor<3> {
    numbers("x", [3, 5, 12], device)
}

/// Second tensor `[3, 5, 12]`.
fn y(device: &Device) -> Tensor<3> {
    numbers("y", [3, 5, 12], device)
}

/// Row `[1, 1, 12]`.
fn row(device: &Device) -> Tensor<3> {
    numbers("row", [1, 1, 12], device)
}

/// Column `[3, 5, 1]`.
fn column(device: &Device) -> Tensor<3> {
    numbers("column", [3, 5, 1], device)
}

/// Vector `[12]`.
fn weight(device: &Device) -> Tensor<1> {
    vector(12, device)
}

fn vector(len: usize, device: &Device) -> Tensor<1> {
    numbers("vector", [len], device)
}

fn matrix(rows: usize, columns: usize, device: &Device) -> Tensor<2> {
    numbers("matrix", [rows, columns], device)
}

/// Four heads of three features, not contiguous: `[3, 4, 5, 3]`.
fn heads(device: &Device) -> Tensor<4> {
    x(device).reshape([3, 5, 4, 3]).swap_dims(1, 2)
}

/// Ids below 11, one of them repeated: `[3, 4]`.
fn ids(device: &Device) -> Tensor<2, Int> {
    Tensor::from_ints([[5, 9, 4, 10], [6, 2, 0, 1], [8, 3, 3, 2]], device)
}

/// Mask `[3, 5]`.
fn mask(device: &Device) -> Tensor<2, Bool> {
    matrix(3, 5, device).greater_elem(0.2)
}

fn numbers<const D: usize>(name: &str, shape: [usize; D], device: &Device) -> Tensor<D> {
    let values: Vec<f32> = noise(name, shape.iter().product()).map(|value| value as f32).collect();
    Tensor::from_data(TensorData::new(values, shape), device)
}

fn gradient<const D: usize>(of: &Tensor<D>, loss: Tensor<1>) -> TensorData {
    of.grad(&loss.backward()).map_or_else(|| TensorData::from([f32::NAN]), |data| data.into_data())
}
