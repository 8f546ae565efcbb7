//! Translation of requests: languages, plans, jobs, answers.

use std::{
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::{Semaphore, SemaphorePermit};
use tx_infer::SearchOptions;

use crate::{
    detect::{Detected, detect},
    downloads::Downloads,
    error::{ApiError, ServeError},
    job::{Done, Job, JobHandle, Unit},
    keys::Keys,
    language,
    limiter::Limiter,
    metrics::{Metrics, Stage},
    model::Route,
    options::{Limits, ServerOptions},
    plan::{Plan, PlanOptions},
    queue::{Queue, QueueLimits},
    registry::Registry,
};

/// Maximum number of bytes of the texts of a request, and of texts, that the thread of its connection
/// divides into sentences and composes again: waking another thread takes longer.
const SHORT: (usize, usize) = (2_048, 16);

/// State of a server, which all requests share.
#[derive(Debug)]
pub struct Service {
    /// Models.
    pub registry: Registry,
    /// Waiting sentences.
    pub queue: Arc<Queue>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Budgets of clients.
    pub limiter: Limiter,
    /// Translated files.
    pub downloads: Downloads,
    /// Options.
    pub options: ServerOptions,
    keys: RwLock<Keys>,
    is_leaving: AtomicBool,
    is_stopped: AtomicBool,
    requests: Semaphore,
}

/// Texts to translate with their options.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The texts.
    pub texts: Vec<String>,
    /// Code of the source language; `None` detects it for each text.
    pub source: Option<String>,
    /// Code of the target language.
    pub target: String,
    /// Name of the model; `None` selects one by the languages.
    pub model: Option<String>,
    /// Code of an intermediate language.
    pub pivot: Option<String>,
    /// Format and layout.
    pub plan: PlanOptions,
    /// Number of alternatives to each translation.
    pub alternatives: usize,
    /// Hypotheses of the search; `None` keeps the model's.
    pub beam: Option<usize>,
}

/// Answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// One for each text.
    pub texts: Vec<TextAnswer>,
}

/// Translation of a text.
#[derive(Debug, Default)]
pub struct TextAnswer {
    /// The translation.
    pub text: String,
    /// Score of the translation: see [`Plan::score`].
    pub score: Option<f32>,
    /// Further translations, best first.
    pub alternatives: Vec<Alternative>,
    /// Detected language, if the request has none.
    pub detected: Option<Detected>,
    /// Names of the models, more than one with an intermediate language.
    pub models: Vec<String>,
    /// Code of the source language.
    pub source: String,
    /// Plan and results of the last model.
    pub result: Option<(Plan, Vec<Done>)>,
}

/// A further translation of a text.
#[derive(Debug, Clone, PartialEq)]
pub struct Alternative {
    /// The translation.
    pub text: String,
    /// Its score: see [`Plan::score`].
    pub score: Option<f32>,
}

/// A text before its translation.
#[derive(Debug, Default)]
struct Source {
    text: String,
    code: String,
    detected: Option<Detected>,
    routes: Vec<Route>,
}

/// Texts with the same route, as one job.
struct Group {
    route: Route,
    /// Indices of the texts, their plans and numbers of units.
    plans: Vec<(usize, Plan, usize)>,
    units: Vec<Unit>,
}

impl Service {
    /// Loads the models and keys of a server.
    ///
    /// # Errors
    ///
    /// If a model or the file of keys cannot be read.
    pub fn new(options: ServerOptions) -> Result<Self, ServeError> {
        let keys = options.keys.as_deref().map(Keys::read).transpose()?.unwrap_or_default();
        let registry = Registry::load(&options.models, options.execution)?;
        let limits = QueueLimits {
            sentences: options.queue,
            batch_tokens: options.execution.batch_tokens,
            workers: options.execution.threads,
        };
        Ok(Self {
            registry,
            queue: Arc::new(Queue::new(limits)),
            metrics: Arc::default(),
            limiter: Limiter::default(),
            downloads: Downloads::default(),
            keys: RwLock::new(keys),
            is_leaving: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            requests: Semaphore::new(options.requests.max(1)),
            options,
        })
    }

    /// Limits of requests.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Current keys.
    pub fn keys(&self) -> Keys {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads models and keys again; returns the errors of those that stay as they are.
    pub fn reload(&self) -> Vec<ServeError> {
        let mut errors = self.registry.reload();
        match self.options.keys.as_deref().map(Keys::read).transpose() {
            Ok(keys) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) =
                    keys.unwrap_or_default();
            }
            Err(error) => errors.push(error),
        }
        errors
    }

    /// Whether a load balancer should send requests.
    pub fn is_ready(&self) -> bool {
        !self.is_leaving() && !self.registry.models().is_empty()
    }

    /// Whether each connection is closed after its next answer.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::SeqCst)
    }

    /// Reports the server as not ready, from now on, and closes each connection after its next answer.
    /// Requests are still answered.
    pub fn leave(&self) {
        self.is_leaving.store(true, Ordering::SeqCst);
    }

    /// Refuses further requests. The server is not ready.
    pub fn stop(&self) {
        self.leave();
        self.is_stopped.store(true, Ordering::SeqCst);
    }

    /// Reserves one of the requests in progress.
    ///
    /// # Errors
    ///
    /// If there are too many.
    pub fn admit(&self) -> Result<SemaphorePermit<'_>, ApiError> {
        self.requests.try_acquire().map_err(|_| ApiError::QueueFull)
    }

    /// Detects the language of a text among those of the models.
    pub fn detect(&self, text: &str) -> Option<Detected> {
        let codes: Vec<String> =
            self.registry.source_languages().into_iter().map(|entry| entry.code).collect();
        detect(text, &codes)
    }

    /// Translates texts.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded, there is no model for the languages, or the server is too busy.
    pub async fn translate(self: &Arc<Self>, request: Request) -> Result<Answer, ApiError> {
        self.check(&request)?;
        let _permit = self.admit()?;
        let deadline = Instant::now() + self.limits().timeout;
        let is_short = is_short(&request.texts);
        let (service, routed) = (self.clone(), request.clone());
        let mut sources = blocking_unless(is_short, move || service.sources(routed)).await??;
        let stages = sources.iter().map(|source| source.routes.len()).max().unwrap_or(0);
        let mut answers: Vec<TextAnswer> = sources.iter().map(|_| TextAnswer::default()).collect();
        for stage in 0..stages.max(1) {
            let is_last = stage + 1 >= stages;
            let options = self.search_options(&request, is_last);
            let plan = PlanOptions { align: request.plan.align && is_last, ..request.plan.clone() };
            // Lines are joined once.
            let plan = if stage > 0 {
                PlanOptions { line_breaks: Default::default(), ..plan }
            } else {
                plan
            };
            let started = Instant::now();
            let planned = blocking_unless(is_short, move || groups(sources, stage, plan));
            let groups = planned.await??;
            self.metrics.stage(Stage::Prepare, started.elapsed());
            sources = groups.1;
            let mut results = Vec::new();
            let mut handles = Vec::new();
            for group in groups.0 {
                let Group { route, plans, units } = group;
                let options = options(&route);
                let (job, handle) = Job::new(route, options, units, deadline);
                self.queue.push(job)?;
                handles.push((plans, handle));
            }
            for (plans, mut handle) in handles {
                results.push((plans, handle.all().await?));
            }
            let started = Instant::now();
            let alternatives = if is_last { request.alternatives } else { 0 };
            let finished = blocking_unless(is_short, move || finish(results, alternatives)).await?;
            self.metrics.stage(Stage::Finish, started.elapsed());
            for (index, answer) in finished {
                if !is_last && let Some(source) = sources.get_mut(index) {
                    source.text.clone_from(&answer.text);
                }
                if let Some(slot) = answers.get_mut(index) {
                    *slot = answer;
                }
            }
        }
        for (answer, source) in answers.iter_mut().zip(sources) {
            answer.detected = source.detected;
            answer.source = source.code;
            answer.models = source.routes.iter().map(|route| route.model.name.clone()).collect();
            if source.routes.is_empty() {
                answer.text = source.text;
            }
        }
        Ok(Answer { texts: answers })
    }

    /// Starts the translation of one text without an intermediate language, whose sentences arrive one
    /// by one.
    ///
    /// # Errors
    ///
    /// Same as [`translate`](Self::translate).
    pub async fn stream(self: &Arc<Self>, request: Request) -> Result<Streamed, ApiError> {
        self.check(&request)?;
        if request.texts.len() != 1 || request.pivot.is_some() {
            return Err(ApiError::Invalid("a stream has one text and no pivot".into()));
        }
        let deadline = Instant::now() + self.limits().timeout;
        let is_short = is_short(&request.texts);
        let (service, routed) = (self.clone(), request.clone());
        let sources = blocking_unless(is_short, move || service.sources(routed)).await??;
        let options = self.search_options(&request, true);
        let plan = request.plan;
        let planned = blocking_unless(is_short, move || groups(sources, 0, plan));
        let (mut groups, mut sources) = planned.await??;
        let (Some(group), Some(source)) = (groups.pop(), sources.pop()) else {
            return Err(ApiError::Internal);
        };
        let Group { route, mut plans, units } = group;
        let Some((_, plan, _)) = plans.pop() else { return Err(ApiError::Internal) };
        let options = options(&route);
        let model = route.model.name.clone();
        let (job, handle) = Job::new(route, options, units, deadline);
        self.queue.push(job)?;
        Ok(Streamed { plan, handle, detected: source.detected, source: source.code, model })
    }

    /// Returns the first exceeded limit.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let limits = self.limits();
        if self.is_stopped.load(Ordering::SeqCst) {
            return Err(ApiError::Stopping);
        }
        if request.texts.len() > limits.texts {
            let (found, max) = (request.texts.len(), limits.texts);
            return Err(ApiError::Invalid(format!(
                "the request has {found} texts; the limit is {max}"
            )));
        }
        let characters: usize = request.texts.iter().map(|text| text.chars().count()).sum();
        if characters > limits.characters {
            let max = limits.characters;
            return Err(ApiError::Invalid(format!(
                "the request has {characters} characters; the limit is {max}"
            )));
        }
        if request.alternatives > limits.alternatives {
            let max = limits.alternatives;
            return Err(ApiError::Invalid(format!("`alternatives` is at most {max}")));
        }
        if request.beam.is_some_and(|beam| beam == 0 || beam > limits.beam) {
            return Err(ApiError::Invalid(format!("`beam` is 1 to {}", limits.beam)));
        }
        self.metrics.characters(characters);
        Ok(())
    }

    /// Options of the search for a route.
    fn search_options(
        &self,
        request: &Request,
        is_last: bool,
    ) -> impl Fn(&Route) -> SearchOptions + use<> {
        let alternatives = if is_last { request.alternatives } else { 0 };
        let (beam, max) = (request.beam, self.limits().beam);
        move |route: &Route| {
            let default = route.translator.options();
            let wanted = beam.unwrap_or(default.beam).min(max.max(1));
            let beam = wanted.max(alternatives + 1);
            if beam == default.beam && alternatives == 0 {
                return SearchOptions { n_best: 1, ..default.clone() };
            }
            let default = SearchOptions { groups: 1, sampling: None, ..default.clone() };
            match beam {
                1 => default.with_one_hypothesis(),
                _ => SearchOptions { beam, n_best: alternatives + 1, ..default },
            }
        }
    }

    /// Finds language and route of each text.
    fn sources(&self, request: Request) -> Result<Vec<Source>, ApiError> {
        let Request { texts, source, target, model, pivot, .. } = request;
        let source_of = |text: String| {
            let detected = match &source {
                Some(_) => None,
                None => Some(self.detect_for(&text, &target)?),
            };
            let code = match (&source, &detected) {
                (Some(code), _) => code.clone(),
                (None, Some(detected)) => detected.language.clone(),
                (None, None) => String::new(),
            };
            // A text in the target language stays as it is.
            let is_target = detected.is_some() && language::same_language(&code, &target);
            let routes = if is_target {
                Vec::new()
            } else {
                self.registry.routes(&code, &target, model.as_deref(), pivot.as_deref())?
            };
            Ok(Source { text, code, detected, routes })
        };
        texts.into_iter().map(source_of).collect()
    }

    /// Detects the language of a text to be translated to `target`.
    fn detect_for(&self, text: &str, target: &str) -> Result<Detected, ApiError> {
        let mut codes: Vec<String> =
            self.registry.source_languages().into_iter().map(|entry| entry.code).collect();
        // A text that has no letters belongs to the first language, which must not be the target.
        codes.sort_by_key(|code| language::same_language(code, target));
        if !codes.iter().any(|code| language::same_language(code, target)) {
            codes.push(target.to_owned());
        }
        detect(text, &codes).ok_or_else(|| ApiError::Invalid("no model is loaded".into()))
    }
}

/// A translation in progress.
#[derive(Debug)]
pub struct Streamed {
    /// Division of the text.
    pub plan: Plan,
    /// Results.
    pub handle: JobHandle,
    /// Detected language.
    pub detected: Option<Detected>,
    /// Code of the source language.
    pub source: String,
    /// Name of the model.
    pub model: String,
}

/// Plans the texts for one stage and groups them by route. Texts without a route are copied.
fn groups(
    sources: Vec<Source>,
    stage: usize,
    options: PlanOptions,
) -> Result<(Vec<Group>, Vec<Source>), ApiError> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let Some(route) = source.routes.get(stage) else { continue };
        let mut plan = Plan::new(&source.text, &route.translator, &options)?;
        let units = plan.take_units();
        let same = |group: &&mut Group| {
            group.route.model.id == route.model.id
                && group.route.source == route.source
                && group.route.target == route.target
        };
        let entry = (index, plan, units.len());
        match groups.iter_mut().find(same) {
            Some(group) => {
                group.plans.push(entry);
                group.units.extend(units);
            }
            None => groups.push(Group { route: route.clone(), plans: vec![entry], units }),
        }
    }
    Ok((groups, sources))
}

/// Plans of a job and the results of their units.
type Finished = (Vec<(usize, Plan, usize)>, Vec<Done>);

/// Composes the answers, with the indices of their texts.
fn finish(results: Vec<Finished>, alternatives: usize) -> Vec<(usize, TextAnswer)> {
    let mut answers = Vec::new();
    for (plans, mut done) in results {
        for (index, plan, count) in plans {
            let rest = done.split_off(count.min(done.len()));
            let results = std::mem::replace(&mut done, rest);
            let text = plan.finish(&results, 0);
            let mut others: Vec<Alternative> = Vec::new();
            for rank in 1..=alternatives {
                let other = plan.finish(&results, rank);
                if other != text && others.iter().all(|known| known.text != other) {
                    others.push(Alternative { text: other, score: plan.score(&results, rank) });
                }
            }
            let score = plan.score(&results, 0);
            let result = Some((plan, results));
            let answer =
                TextAnswer { text, score, alternatives: others, result, ..TextAnswer::default() };
            answers.push((index, answer));
        }
    }
    answers
}

fn is_short(texts: &[String]) -> bool {
    let (bytes, count) = SHORT;
    texts.len() <= count && texts.iter().map(String::len).sum::<usize>() <= bytes
}

/// Runs `work` on this thread if it `is_short`, otherwise on one that may block.
///
/// # Errors
///
/// Same as [`blocking`].
async fn blocking_unless<T: Send + 'static>(
    is_short: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    if is_short { Ok(work()) } else { blocking(work).await }
}

/// Runs `work` on a thread that may block.
///
/// # Errors
///
/// If it panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::Internal)
}
