//! Translation of requests: languages, plans, jobs, answers.

mod groups;
pub mod request;

use std::{
    collections::HashMap,
    sync::{
        Arc, PoisonError, RwLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tx_infer::{Deadline, Pool, SearchOptions};
use tx_markup::{Format, LineBreaks, Plan, PlanOptions, Unit};

use crate::{
    bodies::Bodies,
    detect::{Candidates, Detected, Guess},
    downloads::Downloads,
    error::{ApiError, ServeError, Side},
    glossaries::Glossaries,
    job::Job,
    keys::Keys,
    limiter::Limiter,
    metrics::{Metrics, Stage},
    model::{Execution, Route},
    options::{Limits, OfflinePage, ServerOptions},
    registry::Registry,
};
use groups::{Group, Planned, Source, finish};
use request::{Answer, Context, Request, TextAnswer};

/// Maximum number of bytes of the texts of a request, and of texts, that the thread of its connection
/// divides into sentences and composes again: waking another thread takes longer.
const SHORT: (usize, usize) = (2_048, 16);

/// State of a server, which all requests share.
#[derive(Debug)]
pub struct Service {
    /// Models.
    pub registry: Registry,
    /// Threads of the models, and the waiting sentences.
    pub pool: Pool,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Budgets of clients.
    pub limiter: Limiter,
    /// Memory of the bodies of requests.
    pub bodies: Bodies,
    /// Translated files.
    pub downloads: Downloads,
    /// Glossaries.
    pub glossaries: Glossaries,
    /// Options.
    pub options: ServerOptions,
    /// `None` if requests need no key.
    keys: RwLock<Option<Arc<Keys>>>,
    is_leaving: AtomicBool,
    is_stopped: AtomicBool,
    requests: Arc<Semaphore>,
    documents: Arc<Semaphore>,
}

impl Service {
    /// Loads the models and keys of a server.
    ///
    /// # Errors
    ///
    /// If a model or the file of keys cannot be read, or the page that translates in the browser is not complete.
    pub fn new(options: ServerOptions) -> Result<Self, ServeError> {
        if let Some(OfflinePage { folder, models }) = &options.offline {
            const MODULE: &str = "txmt/txmt.wasm";
            if !folder.join(MODULE).is_file() {
                return Err(ServeError::NoPage { folder: folder.clone(), file: MODULE });
            }
            let is_known = |name: &&String| options.models.iter().any(|it| it.name == **name);
            if let Some(name) = models.iter().find(|name| !is_known(name)) {
                return Err(ServeError::UnknownModel { name: name.clone() });
            }
        }
        let keys = options.keys.as_deref().map(Keys::read).transpose()?;
        let Execution { threads, batch_tokens, precision } = options.execution;
        let metrics = Arc::new(Metrics::new());
        let pool = Pool::new(threads)
            .with_batch_tokens(batch_tokens)
            .with_max_waiting(options.queue)
            .with_observer(metrics.clone());
        let glossaries = Glossaries::default();
        if let Some(error) = glossaries.load(&options.glossaries).pop() {
            return Err(error);
        }
        let registry = Registry::load(&options.models, precision, pool.clone())?;
        Ok(Self {
            registry,
            pool,
            metrics,
            limiter: Limiter::default(),
            bodies: Bodies::new(options.limits.body),
            downloads: Downloads::new(options.limits.body),
            glossaries,
            keys: RwLock::new(keys.map(Arc::new)),
            is_leaving: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            requests: Arc::new(Semaphore::new(options.requests.max(1))),
            documents: Arc::new(Semaphore::new(options.documents.max(1))),
            options,
        })
    }

    /// Limits of requests.
    pub fn limits(&self) -> &Limits {
        &self.options.limits
    }

    /// Current keys; `None` if requests need no key.
    pub fn keys(&self) -> Option<Arc<Keys>> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads models, glossaries and keys again; returns the errors of those that stay as they are.
    pub fn reload(&self) -> Vec<ServeError> {
        let mut errors = self.registry.reload();
        errors.extend(self.glossaries.load(&self.options.glossaries));
        match self.options.keys.as_deref().map(Keys::read) {
            Some(Ok(keys)) => {
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(keys));
            }
            Some(Err(error)) => errors.push(error),
            None => {}
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
    pub fn admit(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.requests.clone().try_acquire_owned().map_err(|_| ApiError::QueueFull)
    }

    /// Reserves one of the documents in progress, before it is read.
    ///
    /// # Errors
    ///
    /// If there are too many.
    pub fn admit_document(&self) -> Result<OwnedSemaphorePermit, ApiError> {
        self.documents.clone().try_acquire_owned().map_err(|_| ApiError::Documents)
    }

    /// Runs `work` on a thread that may block, until the deadline.
    ///
    /// # Errors
    ///
    /// At the deadline, or if `work` panics. At the deadline the thread is not interrupted: `work` checks
    /// the deadline itself.
    pub async fn compute<T: Send + 'static>(
        &self,
        deadline: &Deadline,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let (metrics, checked) = (self.metrics.clone(), deadline.clone());
        let running = blocking(move || {
            // The client may have left while the work waited for a thread.
            checked.check()?;
            let _busy = metrics.busy();
            Ok(work())
        });
        match tokio::time::timeout_at(deadline.end().into(), running).await {
            Ok(result) => result?,
            Err(_) => Err(deadline.error().into()),
        }
    }

    /// Same as [`compute`](Self::compute), but on this thread if the work `is_short`.
    async fn compute_unless<T: Send + 'static>(
        &self,
        is_short: bool,
        deadline: &Deadline,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        if is_short { Ok(work()) } else { self.compute(deadline, work).await }
    }

    /// Detects the languages of texts among those of the models.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded.
    pub async fn detect(
        self: &Arc<Self>,
        texts: Vec<String>,
        deadline: Deadline,
    ) -> Result<Vec<Option<Detected>>, ApiError> {
        self.check_texts(&texts)?;
        let languages = self.registry.languages();
        let checked = deadline.clone();
        let detect = move || {
            let detected = texts.iter().map(|text| {
                checked.check()?;
                Ok(languages.detected().detect(text))
            });
            detected.collect()
        };
        self.compute(&deadline, detect).await?
    }

    /// Returns the language of a text, in a format, to be translated by this request.
    ///
    /// # Errors
    ///
    /// If no model has the target language.
    pub fn guess(&self, request: &Request, text: &str, format: Format) -> Result<Guess, ApiError> {
        let candidates = self.candidates(request)?;
        guess_among(&candidates, request, text, format)
    }

    /// Source languages of the routes of a request.
    fn candidates(&self, request: &Request) -> Result<Arc<Candidates>, ApiError> {
        let target = request.pivot.as_deref().unwrap_or(&request.target);
        let candidates = match &request.model {
            Some(name) => self.registry.model(name)?.candidates(target).cloned(),
            None => self.registry.languages().candidates(target).cloned(),
        };
        candidates
            .filter(|candidates| !candidates.codes().is_empty())
            .ok_or_else(|| unsupported_target(target))
    }

    /// Translates texts.
    ///
    /// # Errors
    ///
    /// If a limit is exceeded, there is no model for the languages, or the server is too busy.
    pub async fn translate(self: &Arc<Self>, request: Request) -> Result<Answer, ApiError> {
        self.check(&request)?;
        let is_short = is_short(&request);
        let (mut sources, request) = self.routed(is_short, request).await?;
        let stages = sources.iter().map(|source| source.routes.len()).max().unwrap_or(0);
        if request.glossary.is_some() && stages > 1 {
            return Err(ApiError::Invalid(
                "a glossary needs a model that translates without an intermediate language".into(),
            ));
        }
        let mut answers: Vec<TextAnswer> = sources.iter().map(|_| TextAnswer::default()).collect();
        for stage in 0..stages {
            let is_last = stage + 1 >= stages;
            let finished;
            (finished, sources) =
                self.run_stage(stage, is_last, sources, &request, is_short).await?;
            for (index, answer) in finished {
                if !is_last && let Some(source) = sources.get_mut(index) {
                    source.text.clone_from(&answer.text);
                }
                if let Some(slot) = answers.get_mut(index) {
                    // Only the words of the first model are those of the text.
                    let unknown = (stage > 0).then(|| std::mem::take(&mut slot.unknown));
                    *slot = answer;
                    slot.unknown = unknown.unwrap_or_else(|| std::mem::take(&mut slot.unknown));
                }
            }
        }
        for (answer, source) in answers.iter_mut().zip(sources) {
            answer.detected = source.detected;
            answer.source = source.code;
            answer.models = source.routes.iter().map(|route| route.model.name.clone()).collect();
            if source.routes.is_empty() {
                answer.text = source.text;
                answer.copied = true;
                self.metrics.copied();
            }
        }
        Ok(Answer { texts: answers })
    }

    /// Translates texts by their routes of one stage. Returns the answers with the indices of their texts,
    /// and the texts.
    async fn run_stage(
        &self,
        stage: usize,
        is_last: bool,
        sources: Vec<Source>,
        request: &Request,
        is_short: bool,
    ) -> Result<(Vec<(usize, TextAnswer)>, Vec<Source>), ApiError> {
        let deadline = &request.deadline;
        let options_of = self.search_options(request, is_last);
        // Lines are joined once.
        let line_breaks = if stage == 0 { request.plan.line_breaks } else { LineBreaks::Keep };
        let align = request.plan.align && is_last;
        let options = PlanOptions { align, line_breaks, ..request.plan.clone() };
        // The text of the context is in the source language.
        let text = if stage == 0 { request.context.text.clone() } else { String::new() };
        let context = Context { text, ..request.context };
        let (started, checked) = (Instant::now(), deadline.clone());
        let plan = move || Planned::new(sources, stage, &options, &context, &checked);
        let Planned { groups, sources } = self.compute_unless(is_short, deadline, plan).await??;
        self.metrics.stage(Stage::Prepare, started.elapsed());
        let mut jobs = Vec::with_capacity(groups.len());
        for Group { route, plans, units } in groups {
            jobs.push((plans, self.submit(&route, &options_of(&route), units, request)?));
        }
        let mut results = Vec::with_capacity(jobs.len());
        for (plans, mut job) in jobs {
            results.push((plans, job.all().await?));
        }
        let (started, checked) = (Instant::now(), deadline.clone());
        let alternatives = if is_last { request.alternatives } else { 0 };
        let compose = move || finish(results, alternatives, &checked);
        let answers = self.compute_unless(is_short, deadline, compose).await??;
        self.metrics.stage(Stage::Finish, started.elapsed());
        Ok((answers, sources))
    }

    /// Logs translations, if the operator enabled it.
    pub fn log_texts(&self, texts: &[TextAnswer]) {
        if self.options.logs_text {
            for text in texts {
                tracing::info!(source = %text.source, translation = %text.text, "translation");
            }
        }
    }

    /// Starts the translation of one text without an intermediate language, whose sentences arrive one
    /// by one.
    ///
    /// # Errors
    ///
    /// Same as [`translate`](Self::translate).
    pub async fn stream(self: &Arc<Self>, request: Request) -> Result<Stream, ApiError> {
        self.check(&request)?;
        if request.texts.len() != 1 || request.pivot.is_some() {
            return Err(ApiError::Invalid("a stream has one text and no pivot".into()));
        }
        let is_short = is_short(&request);
        let (sources, request) = self.routed(is_short, request).await?;
        let deadline = request.deadline.clone();
        let options = self.search_options(&request, true);
        let (plan, context) = (request.plan.clone(), request.context.clone());
        let checked = deadline.clone();
        let planned = move || Planned::new(sources, 0, &plan, &context, &checked);
        let Planned { mut groups, mut sources } =
            self.compute_unless(is_short, &deadline, planned).await??;
        let Some(source) = sources.pop() else { return Err(ApiError::Internal) };
        let Some(Group { route, mut plans, units }) = groups.pop() else {
            self.metrics.copied();
            let Source { text, code, detected, .. } = source;
            let answer =
                TextAnswer { text, copied: true, detected, source: code, ..TextAnswer::default() };
            return Ok(Stream::Copied(answer));
        };
        let Some((_, plan, _)) = plans.pop() else { return Err(ApiError::Internal) };
        let job = self.submit(&route, &options(&route), units, &request)?;
        let (detected, source, model) = (source.detected, source.code, route.model.name.clone());
        Ok(Stream::Sentences(Streamed { plan, job, detected, source, model }))
    }

    /// Puts the sentences of a request for a route into the queue.
    ///
    /// # Errors
    ///
    /// If the queue is full or closed.
    fn submit(
        &self,
        route: &Route,
        options: &SearchOptions,
        units: Vec<Unit>,
        request: &Request,
    ) -> Result<Job, ApiError> {
        let Request { priority, deadline, glossary, .. } = request;
        let route = match glossary {
            None => route,
            Some(_) if options.beam < 2 && options.glossary.constrains() => {
                return Err(ApiError::Invalid("a glossary needs `beam` of at least 2".into()));
            }
            Some(glossary) => &route.with_glossary(glossary.clone()),
        };
        Job::submit(route, options, units, *priority, deadline, &self.metrics)
    }

    /// Returns the first exceeded limit.
    fn check(&self, request: &Request) -> Result<(), ApiError> {
        let limits = self.limits();
        let characters = self.check_texts(&request.texts)?;
        let of_context = request.context.text.chars().count();
        if of_context > limits.characters {
            let max = limits.characters;
            return Err(ApiError::Invalid(format!(
                "the context has {of_context} characters; the limit is {max}"
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

    /// Returns the number of characters of texts.
    ///
    /// # Errors
    ///
    /// If there are too many texts or characters, or the server is stopping.
    fn check_texts(&self, texts: &[String]) -> Result<usize, ApiError> {
        let limits = self.limits();
        if self.is_stopped.load(Ordering::SeqCst) {
            return Err(ApiError::Stopping);
        }
        if texts.len() > limits.texts {
            let (found, max) = (texts.len(), limits.texts);
            return Err(ApiError::Invalid(format!(
                "the request has {found} texts; the limit is {max}"
            )));
        }
        let characters: usize = texts.iter().map(|text| text.chars().count()).sum();
        if characters > limits.characters {
            let max = limits.characters;
            return Err(ApiError::Invalid(format!(
                "the request has {characters} characters; the limit is {max}"
            )));
        }
        Ok(characters)
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

    /// Finds language and route of each text, which it moves out of the request.
    async fn routed(
        self: &Arc<Self>,
        is_short: bool,
        mut request: Request,
    ) -> Result<(Vec<Source>, Request), ApiError> {
        let (service, deadline) = (self.clone(), request.deadline.clone());
        // Detection takes longer than waking another thread.
        let is_short = is_short && request.source.is_some();
        let find = move || {
            let texts = std::mem::take(&mut request.texts);
            Ok((service.sources(texts, &request)?, request))
        };
        self.compute_unless(is_short, &deadline, find).await?
    }

    fn sources(&self, texts: Vec<String>, request: &Request) -> Result<Vec<Source>, ApiError> {
        let candidates = match request.source {
            Some(_) => None,
            None => Some(self.candidates(request)?),
        };
        let mut known: HashMap<String, Arc<[Route]>> = HashMap::new();
        let mut routes = |code: &str| -> Result<Arc<[Route]>, ApiError> {
            if let Some(routes) = known.get(code) {
                return Ok(routes.clone());
            }
            let (model, pivot) = (request.model.as_deref(), request.pivot.as_deref());
            let routes: Arc<[Route]> =
                self.registry.routes(code, &request.target, model, pivot)?.into();
            known.insert(code.to_owned(), routes.clone());
            Ok(routes)
        };
        let format = request.plan.format;
        let source_of = |text: String| {
            request.deadline.check()?;
            Ok(match (&request.source, &candidates) {
                (Some(code), _) => {
                    let (code, detected, routes) = (code.clone(), None, routes(code)?);
                    Source { text, code, detected, routes }
                }
                (None, None) => return Err(ApiError::Internal),
                (None, Some(candidates)) => {
                    let (found, routes) = match guess_among(candidates, request, &text, format)? {
                        Guess::Source(found) => {
                            let routes = routes(&found.language)?;
                            (found, routes)
                        }
                        // A text in the target language stays as it is.
                        Guess::Target(found) => (found, Arc::from([])),
                    };
                    let code = found.language.clone();
                    Source { text, code, detected: Some(found), routes }
                }
            })
        };
        texts.into_iter().map(source_of).collect()
    }
}

fn guess_among(
    candidates: &Candidates,
    request: &Request,
    text: &str,
    format: Format,
) -> Result<Guess, ApiError> {
    let guess = match &request.pivot {
        // The candidates are those of the intermediate language.
        Some(_) => candidates.detect(text).map(Guess::Source),
        None => candidates.guess(text, format),
    };
    guess.ok_or_else(|| unsupported_target(&request.target))
}

fn unsupported_target(code: &str) -> ApiError {
    ApiError::Unsupported { side: Side::Target, code: code.to_owned() }
}

/// Answer that is sent sentence by sentence.
#[derive(Debug)]
pub enum Stream {
    /// The text is in the target language.
    Copied(TextAnswer),
    /// Sentences are translated.
    Sentences(Streamed),
}

/// A translation in progress.
#[derive(Debug)]
pub struct Streamed {
    /// Division of the text.
    pub plan: Plan,
    /// The sentences.
    pub job: Job,
    /// Detected language.
    pub detected: Option<Detected>,
    /// Code of the source language.
    pub source: String,
    /// Name of the model.
    pub model: String,
}

fn is_short(request: &Request) -> bool {
    let (bytes, count) = SHORT;
    let texts = request.texts.iter().chain([&request.context.text]);
    request.texts.len() <= count && texts.map(String::len).sum::<usize>() <= bytes
}

/// Runs `work` on a thread that may block, without a deadline.
///
/// # Errors
///
/// If it panics.
pub async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ApiError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| ApiError::Internal)
}
