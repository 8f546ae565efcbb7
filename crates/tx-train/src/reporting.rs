//! Output for people: progress, dashboard, the HTML report, comparisons of runs.

pub(crate) mod compare;
pub(crate) mod dashboard;
pub(crate) mod noop_renderer;
pub mod observer;
mod parameters;
pub mod progress;
pub mod report;
pub(crate) mod reporter;
pub mod seeds;
