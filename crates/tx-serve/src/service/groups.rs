//! Texts of a request as jobs: one for each route.

use std::{collections::HashMap, sync::Arc};

use tx_infer::Deadline;
use tx_markup::{Done, Plan, PlanOptions, Unit};

use super::request::{Alternative, Context, TextAnswer};
use crate::{detect::Detected, error::ApiError, model::Route};

/// A text before its translation.
#[derive(Debug)]
pub struct Source {
    /// The text.
    pub text: String,
    /// Code of its language.
    pub code: String,
    /// Its language, if it was detected.
    pub detected: Option<Detected>,
    /// Routes to the target language, one for each stage; none if the text is in that language.
    pub routes: Arc<[Route]>,
}

/// Texts with the same route, as one job.
#[derive(Debug)]
pub struct Group {
    /// The route.
    pub route: Route,
    /// Indices of the texts, their plans and numbers of units.
    pub plans: Vec<(usize, Plan, usize)>,
    /// Sentences of all texts.
    pub units: Vec<Unit>,
}

/// Texts that are planned for one stage.
#[derive(Debug)]
pub struct Planned {
    /// The texts with a route, grouped by it.
    pub groups: Vec<Group>,
    /// All texts.
    pub sources: Vec<Source>,
}

impl Planned {
    /// Plans the texts for one stage, with the context of those whose model reads it, and groups them by route.
    /// Texts without a route are copied.
    ///
    /// # Errors
    ///
    /// If a text cannot be divided, or at the deadline.
    pub fn new(
        sources: Vec<Source>,
        stage: usize,
        options: &PlanOptions,
        context: &Context,
        deadline: &Deadline,
    ) -> Result<Self, ApiError> {
        let mut options = options.clone();
        let mut groups: Vec<Group> = Vec::new();
        let mut known: HashMap<(u64, &str, &str), usize> = HashMap::new();
        for (index, source) in sources.iter().enumerate() {
            deadline.check()?;
            let Some(route) = source.routes.get(stage) else { continue };
            if !context.text.is_empty()
                && options.context.is_empty()
                && route.translator.texts().context() > 0
            {
                let spans = route.translator.spans(&context.text)?;
                options.context = route.translator.context_of(&context.text, &spans);
            }
            let mut plan = Plan::new(&source.text, &route.translator, &options, deadline)?;
            if context.is_document {
                options.context = plan.context().to_vec();
            }
            let units = plan.take_units();
            let entry = (index, plan, units.len());
            let next = groups.len();
            let group =
                *known.entry((route.model.id, &route.source, &route.target)).or_insert(next);
            match groups.get_mut(group) {
                Some(group) => {
                    group.plans.push(entry);
                    group.units.extend(units);
                }
                None => groups.push(Group { route: route.clone(), plans: vec![entry], units }),
            }
        }
        Ok(Self { groups, sources })
    }
}

/// Plans of a job and the results of their units.
pub type Finished = (Vec<(usize, Plan, usize)>, Vec<Done>);

/// Composes the answers, with the indices of their texts.
///
/// # Errors
///
/// At the deadline.
pub fn finish(
    results: Vec<Finished>,
    alternatives: usize,
    deadline: &Deadline,
) -> Result<Vec<(usize, TextAnswer)>, ApiError> {
    let mut answers = Vec::new();
    for (plans, done) in results {
        let mut done = done.into_iter();
        for (index, plan, count) in plans {
            deadline.check()?;
            let results: Vec<Done> = done.by_ref().take(count).collect();
            let text = plan.finish(&results, 0);
            let mut others: Vec<Alternative> = Vec::new();
            for rank in 1..=alternatives {
                deadline.check()?;
                let other = plan.finish(&results, rank);
                if other != text && others.iter().all(|known| known.text != other) {
                    others.push(Alternative { text: other, score: plan.score(&results, rank) });
                }
            }
            let score = plan.score(&results, 0);
            let unknown = plan.unknown(&results);
            let result = Some((plan, results));
            let answer = TextAnswer {
                text,
                score,
                unknown,
                alternatives: others,
                result,
                ..TextAnswer::default()
            };
            answers.push((index, answer));
        }
    }
    Ok(answers)
}
