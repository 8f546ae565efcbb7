//! Translation of texts of one format.

use tx_infer::{Aligner, Cancellation, Deadline, Line, Translation, Translator};

use crate::{
    error::MarkupError,
    plan::{Plan, PlanOptions},
    unit::{Done, Unit},
};

/// Translates the texts of a document with the search options of `translator`, and passes the result of each
/// sentence to `report`, in order. A model with context reads each sentence with those before it, also of other
/// texts.
///
/// # Errors
///
/// [`MarkupError::Invalid`] if a text is not of its format; [`MarkupError::Infer`] if the model fails; at the
/// deadline, which is checked between sentences.
pub fn translate(
    texts: &[String],
    translator: &Translator,
    aligner: &Aligner,
    options: &PlanOptions,
    deadline: &Deadline,
    mut report: impl FnMut(&Translation),
) -> Result<Vec<String>, MarkupError> {
    let (mut plans, mut units): (Vec<(Plan, usize)>, Vec<Unit>) = Default::default();
    let mut options = options.clone();
    for text in texts {
        let mut plan = Plan::new(text, translator, &options, deadline)?;
        options.context = plan.context().to_vec();
        let sentences = plan.take_units();
        plans.push((plan, sentences.len()));
        units.extend(sentences);
    }
    let lines = units.iter().zip(0..).map(|(unit, number)| unit.line(number));
    let lines: Vec<Line<'_>> = lines.collect();
    let mut waiting = units.iter();
    let mut done = Vec::with_capacity(units.len());
    let sink = |ready: Vec<Translation>| {
        deadline.check()?;
        for (translation, unit) in ready.into_iter().zip(waiting.by_ref()) {
            report(&translation);
            done.push(Done::new(unit, translation, translator.texts(), aligner)?);
        }
        Ok::<_, MarkupError>(())
    };
    translator.translate_lines(&lines, translator.options(), &Cancellation::new(), sink)?;
    let mut rest = &done[..];
    let finished = plans.iter().map(|(plan, count)| {
        let (results, others) = rest.split_at(*count);
        rest = others;
        plan.finish(results, 0)
    });
    Ok(finished.collect())
}
