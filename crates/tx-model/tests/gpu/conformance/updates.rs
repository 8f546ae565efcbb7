//! Kernels for many tensors: gradient norm, clipping and Adam.

use std::mem::take;

use burn::{
    backend::{Dispatch, tensor::FloatTensor},
    tensor::{Device, Tensor, TensorData},
};
use tx_model::kernels::{AdamBuffers, AdamUpdate, FlatTensors, ParameterState};

use super::{SIZES, assert_close, doubles, test_device, vector};

/// Tensors of several ranks, of which every second matrix is a transposed view.
fn tensors(name: &str, device: &Device) -> Vec<Tensor<2>> {
    let matrix = |(index, rows): (usize, usize)| {
        let columns = SIZES[(index * 5 + 3) % SIZES.len()];
        let values = vector(&format!("{name} {index}"), rows * columns, device);
        match index % 2 {
            0 => values.reshape([rows, columns]),
            _ => values.reshape([columns, rows]).transpose(),
        }
    };
    SIZES.into_iter().enumerate().map(matrix).collect()
}

#[test]
fn flat_tensors_are_the_tensors() {
    let Some(device) = test_device() else { return };
    let originals = tensors("gradient", &device);
    let mut views: Vec<_> = originals.iter().map(|x| x.clone().into_dispatch()).collect();
    let flat = FlatTensors::replacing(&mut views).expect("a CubeCL device has the kernels");
    let of = |view: &FloatTensor<Dispatch>| Tensor::<2>::from_dispatch(view.clone());
    let expected: Vec<_> = originals.iter().map(|x| x.clone().into_data()).collect();
    let squares = expected.iter().flat_map(TensorData::iter::<f64>).map(|x| x * x).sum::<f64>();
    for (view, expected) in views.iter().zip(&expected) {
        of(view).into_data().assert_eq(expected, true);
    }
    assert_close("squares", &doubles(flat.sum_of_squares()), &[squares]);
    flat.scale(0.5);
    for (view, expected) in views.iter().zip(&expected) {
        let halves = expected.iter::<f32>().map(|x| 0.5 * x).collect::<Vec<_>>();
        assert_eq!(of(view).into_data().try_to_vec::<f32>().unwrap(), halves);
    }
    assert_close("squares", &doubles(flat.sum_of_squares()), &[0.25 * squares]);
}

/// Gradients of update `time`, as views of few vectors. In the third, one tensor has none.
fn gradients(time: usize, device: &Device) -> Vec<Option<Tensor<2>>> {
    let mut all: Vec<_> = tensors(&format!("gradient {time}"), device)
        .into_iter()
        .map(|gradient| gradient.into_dispatch())
        .collect();
    if time == 3 {
        all.remove(4);
    }
    // The CPU keeps tensors of their own.
    let _ = FlatTensors::replacing(&mut all);
    let mut all: Vec<_> = all.into_iter().map(Tensor::from_dispatch).map(Some).collect();
    if time == 3 {
        all.insert(4, None);
    }
    all
}

/// Coefficients of update `time`. Every third tensor has others.
fn coefficients(index: usize, time: usize) -> AdamUpdate {
    let (l2, decay) = if index % 3 == 2 { (0.01, 1.0) } else { (0.0, 0.99) };
    AdamUpdate { beta_1: 0.9, beta_2: 0.98, step: 0.1 / time as f32, epsilon: 1e-3, l2, decay }
}

/// Parameters and moments before the first update.
fn states(device: &Device) -> Vec<ParameterState<2>> {
    let state = |parameter: Tensor<2>| {
        let zeros = parameter.zeros_like();
        ParameterState { parameter, exp_avg: zeros.clone(), exp_avg_sq: zeros }
    };
    tensors("parameter", device).into_iter().map(state).collect()
}

/// Makes update `time` of all tensors.
fn update(
    buffers: &AdamBuffers,
    states: Vec<ParameterState<2>>,
    time: usize,
    device: &Device,
) -> Vec<ParameterState<2>> {
    let updates = states.into_iter().zip(gradients(time, device)).enumerate();
    let one = |(index, (state, gradient)): (usize, (_, Option<_>))| match gradient {
        Some(gradient) => buffers.adam(state, gradient, coefficients(index, time)),
        None => state,
    };
    updates.map(one).collect()
}

fn values(states: &[ParameterState<2>]) -> Vec<TensorData> {
    let all = states.iter().flat_map(|state| {
        let ParameterState { parameter, exp_avg, exp_avg_sq } = state.clone();
        [parameter, exp_avg, exp_avg_sq]
    });
    all.map(Tensor::into_data).collect()
}

#[test]
fn adam_of_many_tensors_equals_that_of_each() {
    let Some(device) = test_device() else { return };
    let buffers = [AdamBuffers::default(), AdamBuffers::default()];
    let devices = [device, Device::flex()];
    let mut both = devices.each_ref().map(states);
    for time in 1..=6 {
        let old = both[0].clone();
        let before = values(&old);
        for ((states, buffers), device) in both.iter_mut().zip(&buffers).zip(&devices) {
            *states = update(buffers, take(states), time, device);
        }
        let [found, expected] = both.each_ref().map(|states| values(states));
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let [found, expected] =
                [found, expected].map(|data| data.iter::<f64>().collect::<Vec<_>>());
            assert_close(&format!("update {time}, tensor {index}"), &found, &expected);
        }
        // A clone from before the update is as it was.
        assert_eq!(values(&old), before, "update {time}");
    }
}

/// A resumed run reads parameters and moments into buffers of their own.
#[test]
fn adam_continues_with_the_same_bits_from_a_checkpoint() {
    let Some(device) = test_device() else { return };
    let [one, other] = [AdamBuffers::default(), AdamBuffers::default()];
    let mut through = states(&device);
    for time in 1..=3 {
        through = update(&one, through, time, &device);
    }
    let read = |x: &Tensor<2>| Tensor::from_data(x.clone().into_data(), &device);
    let mut resumed: Vec<_> = through
        .iter()
        .map(|state| ParameterState {
            parameter: read(&state.parameter),
            exp_avg: read(&state.exp_avg),
            exp_avg_sq: read(&state.exp_avg_sq),
        })
        .collect();
    for time in 4..=6 {
        through = update(&one, through, time, &device);
        resumed = update(&other, resumed, time, &device);
        assert_eq!(values(&through), values(&resumed), "update {time}");
    }
}
