//! The native interface: tokens, scores, alternatives, alignments, attention, streams.

use std::{convert::Infallible, sync::Arc};

use axum::{
    body::{Body, Bytes},
    extract::{Request, State},
    http::header,
    response::Response,
};
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tx_infer::{
    Alignment, Attention, AttentionKind, Cancellation, InferError, Line, Scored, Term,
    attention_page, figure::FigureOptions,
};
use tx_markup::{Done, SentenceResult};

use super::{
    call::{Call, Guard, IGNORED, OPTIONS},
    reply,
};
use crate::{
    error::ApiError,
    model::Route,
    service::{
        Service, Stream, Streamed,
        request::{self, TextAnswer},
    },
};

/// Parameters of `/v1/translate` besides those of `/translate`.
const DETAILS: [&str; 6] = ["q", "tokens", "alignment", "attention", "confidence", "stream"];

/// `GET /v1/models`.
pub async fn models(State(service): State<Arc<Service>>) -> Response {
    let models = service.registry.models();
    let models: Vec<_> = models.iter().map(|model| model.info()).collect();
    reply::json(&json!({ "models": models }))
}

/// Parts of the answer besides the texts.
#[derive(Debug, Clone, Copy)]
struct Detail {
    tokens: bool,
    alignment: bool,
    attention: bool,
    confidence: bool,
}

/// `POST /v1/translate`.
pub async fn translate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let call = Call::read(&service, request).await?;
    let parameters = &call.parameters;
    parameters.only(&[&DETAILS[..], &OPTIONS].concat(), &IGNORED)?;
    let (texts, _) = parameters.texts("q")?;
    call.access.characters(&service, &texts)?;
    let mut request = call.request(&service)?;
    request.texts = texts;
    let detail = Detail {
        tokens: parameters.flag("tokens")?,
        alignment: parameters.flag("alignment")?,
        attention: parameters.flag("attention")?,
        confidence: parameters.flag("confidence")?,
    };
    request.plan.align = detail.alignment || detail.attention;
    if parameters.flag("stream")? {
        if detail.tokens || detail.confidence || request.plan.align || request.alternatives > 0 {
            return Err(ApiError::Invalid(
                "`stream` has no `tokens`, `alignment`, `attention`, `confidence` or `alternatives`".into(),
            ));
        }
        let stream = service.stream(request).await?;
        return Ok(events(service, stream, call.guard));
    }
    let target = request.target.clone();
    let answer = service.translate(request).await?;
    service.log_texts(&answer.texts);
    let (shared, deadline) = (service.clone(), call.deadline.clone());
    let cancellation = deadline.cancellation();
    let value = service.compute(&call.deadline, move || {
        let texts = answer.texts.iter().map(|text| {
            deadline.check()?;
            Ok(described(&shared, text, &target, detail, &cancellation))
        });
        Ok(reply::json(
            &json!({ "translations": texts.collect::<Result<Vec<Value>, ApiError>>()? }),
        ))
    });
    value.await?
}

/// A translation with its sentences.
fn described(
    service: &Service,
    answer: &TextAnswer,
    target: &str,
    detail: Detail,
    cancellation: &Cancellation,
) -> Value {
    let mut value = json!({
        "text": answer.text,
        "score": answer.score,
        "alternatives": answer.alternatives.iter().map(|other| &*other.text).collect::<Vec<_>>(),
        "alternative_scores": answer.alternatives.iter().map(|other| other.score).collect::<Vec<_>>(),
        "source": answer.source,
        "target": target,
        "models": answer.models,
        "copied": answer.copied,
        "unknown": answer.unknown,
    });
    if let Some(detected) = &answer.detected {
        value["detected"] = json!(detected);
    }
    if let Some((plan, results)) = &answer.result {
        // The target vocabulary is that of the last model.
        let models = service.registry.models();
        let model = models.iter().find(|model| Some(&model.name) == answer.models.last());
        let route = model.and_then(|model| {
            // Tokens do not depend on the selected languages.
            model.route(model.sources().list().first()?, model.targets().list().last()?)
        });
        let sentences: Vec<SentenceResult<'_>> = plan.sentences(results).collect();
        let mut values: Vec<Value> = sentences
            .iter()
            .map(|sentence| sentence_of(sentence, route.as_ref(), detail))
            .collect();
        // With an intermediate language, the sources are in that language, which is not known here.
        let model = model.filter(|_| detail.confidence && answer.models.len() == 1);
        if let Some(route) = model.and_then(|model| model.route(&answer.source, target)) {
            add_confidence(&mut values, &sentences, &route, cancellation);
        }
        value["sentences"] = values.into();
    }
    value
}

/// Adds the confidence to sentences, if the model is calibrated.
fn add_confidence(
    values: &mut [Value],
    sentences: &[SentenceResult<'_>],
    route: &Route,
    cancellation: &Cancellation,
) {
    let done = sentences.iter().enumerate().filter_map(|(index, sentence)| {
        let Done { translation, .. } = sentence.done?;
        Some((index, sentence.source, translation.clone()))
    });
    let (mut indices, mut lines, mut translations) = (Vec::new(), Vec::new(), Vec::new());
    for (index, source, translation) in done {
        indices.push(index);
        lines.push(Line::new(source, index as u64));
        translations.push(translation);
    }
    match route.translator.confidences(&lines, &translations, cancellation) {
        Ok(found) => {
            for (index, confidence) in indices.into_iter().zip(found) {
                values[index]["confidence"] = confidence.to_json();
            }
        }
        Err(InferError::NotCalibrated | InferError::Cancelled) => {}
        Err(error) => tracing::error!(%error, "the confidence could not be computed"),
    }
}

fn sentence_of(sentence: &SentenceResult<'_>, route: Option<&Route>, detail: Detail) -> Value {
    let Some(Done { translation, alignment }) = sentence.done else {
        return json!({ "source": sentence.source, "text": sentence.source });
    };
    let hypotheses: Vec<Value> =
        translation.hypotheses.iter().map(|found| hypothesis(found, route, detail)).collect();
    let mut value = json!({
        "source": sentence.source,
        "text": translation.text,
        "truncated": translation.truncated,
        "unknown": translation.unknown,
        "hypotheses": hypotheses,
    });
    if !translation.terms.is_empty() {
        value["terms"] = translation.terms.iter().map(Term::to_json).collect();
    }
    if let Some(Alignment { source, target, weights }) = alignment {
        if detail.alignment {
            let links = alignment.as_ref().map(Alignment::links).unwrap_or_default();
            value["alignment"] = json!({ "source": source, "target": target, "links": links });
        }
        if detail.attention {
            value["attention"] = json!({ "source": source, "target": target, "weights": weights });
        }
    }
    value
}

fn hypothesis(found: &Scored, route: Option<&Route>, detail: Detail) -> Value {
    let Scored { text, hypothesis, .. } = found;
    let mut value = json!({
        "text": text,
        "score": hypothesis.score,
        "log_probability": hypothesis.log_probability,
    });
    if detail.tokens
        && let Some(route) = route
    {
        let tokenizer = &route.translator.tokenizers().target;
        let token = |id: &u32| tokenizer.token(*id).unwrap_or_default();
        value["tokens"] = hypothesis.ids.iter().map(token).collect();
    }
    value
}

/// Server-sent events: `sentence` for each sentence in order, then `done` or `error`. The guard of the
/// request is held until the last one.
fn events(service: Arc<Service>, stream: Stream, guard: Guard) -> Response {
    const WAITING: usize = 16;
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    tokio::spawn(async move {
        let _guard = guard;
        // Dropping the job cancels the sentences of a client that has left.
        let gone = sender.clone();
        let sent = async {
            match stream {
                Stream::Copied(answer) => send_copy(&service, answer, sender).await,
                Stream::Sentences(streamed) => send_events(&service, streamed, sender).await,
            }
        };
        tokio::select! {
            () = sent => {}
            () = gone.closed() => {}
        }
    });
    let events = stream::unfold(receiver, |mut receiver| async {
        let event = receiver.recv().await?;
        Some((Ok::<_, Infallible>(event), receiver))
    });
    let mut response = reply::content("text/event-stream", Body::from_stream(events));
    reply::set(&mut response, header::CACHE_CONTROL, "no-store");
    response
}

/// A text in the target language is one sentence, which is copied.
async fn send_copy(service: &Service, answer: TextAnswer, sender: mpsc::Sender<Bytes>) {
    service.log_texts(std::slice::from_ref(&answer));
    let TextAnswer { text, source, detected, .. } = answer;
    let sentence = json!({ "index": 0, "before": "", "source": text, "text": text });
    let done = json!({
        "text": text, "source": source, "models": [], "detected": detected, "copied": true,
    });
    // The client may have left.
    if sender.send(event("sentence", &sentence)).await.is_ok() {
        let _ = sender.send(event("done", &done)).await;
    }
}

async fn send_events(service: &Service, streamed: Streamed, sender: mpsc::Sender<Bytes>) {
    let Streamed { plan, mut job, detected, source, model } = streamed;
    let mut results: Vec<Option<Done>> = vec![None; job.len()];
    let (mut sent, mut arrived) = (0, 0);
    loop {
        while let Some(partial) = plan.sentence(sent, &results) {
            let data = json!({
                "index": sent,
                "before": partial.before,
                "source": partial.source,
                "text": partial.translation,
            });
            if sender.send(event("sentence", &data)).await.is_err() {
                return;
            }
            sent += 1;
            if job.deadline().is_over() {
                return send_error(&sender, &job.deadline().error().into()).await;
            }
        }
        if arrived == results.len() {
            break;
        }
        match job.next().await {
            Ok((index, done)) => {
                if let Some(slot) = results.get_mut(index) {
                    *slot = Some(done);
                }
                arrived += 1;
            }
            Err(error) => return send_error(&sender, &error).await,
        }
    }
    let results: Vec<Done> = results.into_iter().flatten().collect();
    let finish = move || plan.finish(&results, 0);
    let text = match service.compute(job.deadline(), finish).await {
        Ok(text) => text,
        Err(error) => return send_error(&sender, &error).await,
    };
    let mut data = json!({ "text": text, "source": source, "models": [model], "copied": false });
    if let Some(detected) = detected {
        data["detected"] = json!(detected);
    }
    let _ = sender.send(event("done", &data)).await;
}

async fn send_error(sender: &mpsc::Sender<Bytes>, error: &ApiError) {
    let data = json!({ "error": error.to_string(), "status": error.status() });
    // The client may have left.
    let _ = sender.send(event("error", &data)).await;
}

/// An event. JSON has no line breaks outside of its escapes.
fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}

/// `POST /attention`: an HTML page with the attention of a sentence and its translation.
pub async fn attention(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    /// The page has scripts of its own, but no origin.
    const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
         base-uri 'none'; frame-ancestors 'none'; sandbox allow-scripts";
    let call = Call::read(&service, request).await?;
    call.parameters.only(&["q", "source", "target"], &IGNORED)?;
    let text = call.parameters.required("q")?.to_owned();
    call.access.characters(&service, std::slice::from_ref(&text))?;
    let source = call.parameters.required("source")?.to_owned();
    let target = call.parameters.required("target")?.to_owned();
    let source = Some(source).filter(|source| source != "auto");
    let request = request::Request::new(vec![text], source, target.clone(), call.deadline.clone());
    let mut answer = service.translate(request).await?;
    let answer = answer.texts.pop().ok_or(ApiError::Internal)?;
    let shared = service.clone();
    let page = service.compute(&call.deadline, move || page_of(&shared, &answer, &target));
    let mut response = reply::content("text/html; charset=utf-8", page.await??);
    reply::set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    Ok(response)
}

/// The attention page of the first sentence of an answer.
fn page_of(service: &Service, answer: &TextAnswer, target: &str) -> Result<String, ApiError> {
    let no_words = || ApiError::Invalid("the text has no words".into());
    if answer.copied {
        return Err(ApiError::Invalid(format!("the text is in the target language {target}")));
    }
    let (plan, results) = answer.result.as_ref().ok_or_else(no_words)?;
    let sentence = plan.sentences(results).find(|sentence| sentence.done.is_some());
    let sentence = sentence.ok_or_else(no_words)?;
    let best = sentence.done.and_then(|done| done.translation.hypotheses.first());
    let best = best.ok_or_else(no_words)?;
    let routes = service.registry.routes(&answer.source, target, None, None)?;
    let route = routes.first().ok_or(ApiError::Internal)?;
    let texts = route.translator.texts();
    let pair = texts
        .source(sentence.source)
        .and_then(|source| Ok((source, texts.hypothesis(&best.hypothesis.ids)?)));
    let (source, target) = pair.map_err(|_| ApiError::Internal)?;
    let attention = Attention::of(route.translator.engine(), source, target);
    let layers = attention.layers(AttentionKind::Cross).len();
    let options = FigureOptions {
        kind: AttentionKind::Cross,
        layer: layers.saturating_sub(1),
        head: None,
        words: true,
        grid: false,
    };
    Ok(attention_page::html(&attention, &options))
}
