//! Updates by Adam (Kingma and Ba 2015) of all parameters whose gradients share a vector, in one launch.
//!
//! From the second update on, parameters and moments are views of vectors with the layout of the vector
//! of gradients. The first tensor of an update then launches the update of whole vectors, and the other
//! tensors receive their views of its results. A tensor that does not fit, as in the first update or with
//! other coefficients, is updated alone, into its view of the same results.
//!
//! The results have buffers of their own, because a clone of the model may still refer to the old ones.

use burn::tensor::Shape;
use burn_cubecl::{
    cubecl::{self, prelude::*},
    kernel::into_contiguous,
    tensor::CubeTensor,
};

use super::{
    empty,
    flat::{Place, view},
    units,
};
use crate::kernels::AdamUpdate;

/// Results of the last update, and how they were computed.
#[derive(Debug)]
pub struct Results {
    /// Buffer of the gradients.
    gradients: usize,
    /// Parameters, first and second moments, laid out like the gradients.
    vectors: [CubeTensor; 3],
    /// Buffers of the old parameters and moments, and coefficients, if whole vectors were updated.
    whole: Option<([usize; 3], AdamUpdate)>,
}

impl Results {
    /// Allocates results for gradients at `place`.
    fn of(gradient: &CubeTensor, place: Place) -> Self {
        let vector = || empty(gradient, Shape::new([place.elements()]));
        let vectors = [(); 3].map(|()| vector());
        Self { gradients: place.buffer, vectors, whole: None }
    }

    /// Returns `true` if the results are those of gradients in this buffer, and none of the `old` buffers
    /// is among them.
    fn belong_to(&self, gradients: usize, old: [usize; 3]) -> bool {
        let own = self.vectors.each_ref().map(|vector| Place::of(vector).buffer);
        self.gradients == gradients && !own.iter().any(|own| old.contains(own))
    }
}

/// See [`adam`](crate::kernels::adam()): `state` is the parameter with its moments. `last` has the
/// results of the last call.
pub fn update(
    last: &mut Option<Results>,
    state: [CubeTensor; 3],
    gradient: CubeTensor,
    update: AdamUpdate,
) -> [CubeTensor; 3] {
    let (state, gradient) = (state.map(into_contiguous), into_contiguous(gradient));
    let place = Place::of(&gradient);
    let places = state.each_ref().map(Place::of);
    let old = places.map(|place| place.buffer);
    let same_layout = places.iter().all(|&old| old.is_at(place));

    let found = last.take().filter(|results| results.belong_to(place.buffer, old));
    let is_first = found.is_none();
    let results = last.insert(found.unwrap_or_else(|| Results::of(&gradient, place)));
    let shape = state[0].meta.shape();
    let start = place.first();
    let views = results.vectors.each_ref().map(|vector| view(vector, start, shape.clone()));
    // Later, an update of whole vectors would overwrite the results of earlier tensors.
    if same_layout && is_first {
        launch(state.map(whole), whole(gradient), results.vectors.clone(), update);
        results.whole = Some((old, update));
    } else if !same_layout || results.whole != Some((old, update)) {
        launch(state, gradient, views.clone(), update);
    }
    views
}

/// Returns the whole buffer of a view as a vector.
fn whole(view: CubeTensor) -> CubeTensor {
    let elements = Place::of(&view).elements();
    let mut handle = view.handle;
    (handle.offset_start, handle.offset_end) = (None, None);
    CubeTensor::new_contiguous(view.client, view.device, Shape::new([elements]), handle, view.dtype)
}

fn launch(
    [parameter, exp_avg, exp_avg_sq]: [CubeTensor; 3],
    gradient: CubeTensor,
    results: [CubeTensor; 3],
    update: AdamUpdate,
) {
    let client = gradient.client.clone();
    let (count, dim) = units(&gradient, gradient.meta.num_elements());
    let [new_parameter, new_exp_avg, new_exp_avg_sq] = results.map(CubeTensor::into_buffer_arg);
    let AdamUpdate { beta_1, beta_2, step, epsilon, l2, decay } = update;
    adam::launch(
        &client,
        count,
        dim,
        parameter.into_buffer_arg(),
        gradient.into_buffer_arg(),
        exp_avg.into_buffer_arg(),
        exp_avg_sq.into_buffer_arg(),
        new_parameter,
        new_exp_avg,
        new_exp_avg_sq,
        beta_1,
        beta_2,
        step,
        epsilon,
        l2,
        decay,
    );
}

#[cube(launch)]
fn adam(
    parameter: &[f32],
    gradient: &[f32],
    exp_avg: &[f32],
    exp_avg_sq: &[f32],
    new_parameter: &mut [f32],
    new_exp_avg: &mut [f32],
    new_exp_avg_sq: &mut [f32],
    beta_1: f32,
    beta_2: f32,
    step: f32,
    epsilon: f32,
    l2: f32,
    decay: f32,
) {
    let i = ABSOLUTE_POS;
    if i < parameter.len() {
        let g = gradient[i] + l2 * parameter[i];
        let m = beta_1 * exp_avg[i] + (1.0f32 - beta_1) * g;
        let v = beta_2 * exp_avg_sq[i] + (1.0f32 - beta_2) * g * g;
        new_exp_avg[i] = m;
        new_exp_avg_sq[i] = v;
        new_parameter[i] = decay * parameter[i] - step * m / (v.sqrt() + epsilon);
    }
}
