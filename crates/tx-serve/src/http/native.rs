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
    Alignment, Attention, AttentionKind, Scored, attention_page, figure::FigureOptions,
};

use super::{
    libretranslate::{self, permitted},
    reply,
};
use crate::{
    error::ApiError,
    job::Done,
    model::Route,
    plan::SentenceResult,
    service::{self, Service, Streamed, TextAnswer},
};

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
}

/// `POST /v1/translate`.
pub async fn translate(
    State(service): State<Arc<Service>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parameters, access) = permitted(&service, request).await?;
    let (texts, _) = parameters.texts("q")?;
    access.characters(&service, &texts)?;
    let mut request = libretranslate::request(&parameters)?;
    request.texts = texts;
    let detail = Detail {
        tokens: parameters.flag("tokens"),
        alignment: parameters.flag("alignment"),
        attention: parameters.flag("attention"),
    };
    request.plan.align = detail.alignment || detail.attention;
    if parameters.flag("stream") {
        let streamed = service.stream(request.clone()).await?;
        return Ok(events(streamed));
    }
    let target = request.target.clone();
    let answer = service.translate(request).await?;
    libretranslate::log_texts(&service, &answer.texts);
    let value = service::blocking(move || {
        let texts: Vec<Value> =
            answer.texts.iter().map(|text| described(&service, text, &target, detail)).collect();
        json!({ "translations": texts })
    });
    Ok(reply::json(&value.await?))
}

/// A translation with its sentences.
fn described(service: &Service, answer: &TextAnswer, target: &str, detail: Detail) -> Value {
    let mut value = json!({
        "text": answer.text,
        "score": answer.score,
        "alternatives": answer.alternatives.iter().map(|other| &*other.text).collect::<Vec<_>>(),
        "alternative_scores": answer.alternatives.iter().map(|other| other.score).collect::<Vec<_>>(),
        "source": answer.source,
        "target": target,
        "models": answer.models,
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
            model.route(model.sources().first()?, model.targets().last()?)
        });
        let sentences = plan.sentences(results);
        let sentences = sentences.map(|sentence| sentence_of(&sentence, route.as_ref(), detail));
        value["sentences"] = sentences.collect();
    }
    value
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

/// Server-sent events: `sentence` for each sentence in order, then `done` or `error`.
fn events(streamed: Streamed) -> Response {
    const WAITING: usize = 16;
    let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
    tokio::spawn(async move {
        // Dropping the handle cancels the sentences of a client that has left.
        let gone = sender.clone();
        tokio::select! {
            () = send_events(streamed, sender) => {}
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

async fn send_events(streamed: Streamed, sender: mpsc::Sender<Bytes>) {
    let Streamed { plan, mut handle, detected, source, model } = streamed;
    let mut results: Vec<Option<Done>> = vec![None; handle.len()];
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
        }
        if arrived == results.len() {
            break;
        }
        let message = tokio::time::timeout_at(handle.deadline().into(), handle.next()).await;
        let error = match message {
            Ok(Some((index, Ok(done)))) => {
                if let Some(slot) = results.get_mut(index) {
                    arrived += usize::from(slot.replace(done).is_none());
                }
                continue;
            }
            Ok(Some((_, Err(error)))) => error,
            Ok(None) => ApiError::Internal,
            Err(_) => handle.timeout(),
        };
        let data = json!({ "error": error.to_string(), "status": error.status() });
        // The client may have left.
        let _ = sender.send(event("error", &data)).await;
        return;
    }
    let results: Vec<Done> = results.into_iter().flatten().collect();
    let mut data = json!({ "text": plan.finish(&results, 0), "source": source, "models": [model] });
    if let Some(detected) = detected {
        data["detected"] = json!(detected);
    }
    let _ = sender.send(event("done", &data)).await;
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
    let (parameters, access) = permitted(&service, request).await?;
    let text = parameters.required("q")?.to_owned();
    access.characters(&service, std::slice::from_ref(&text))?;
    let source = parameters.required("source")?.to_owned();
    let target = parameters.required("target")?.to_owned();
    let request = service::Request {
        texts: vec![text.clone()],
        source: Some(source.clone()).filter(|source| source != "auto"),
        target: target.clone(),
        ..service::Request::default()
    };
    let mut answer = service.translate(request).await?;
    let answer = answer.texts.pop().ok_or(ApiError::Internal)?;
    let _permit = service.admit()?;
    let shared = service.clone();
    let page = service::blocking(move || page_of(&shared, &answer, &target));
    let mut response = reply::content("text/html; charset=utf-8", page.await??);
    reply::set(&mut response, header::CONTENT_SECURITY_POLICY, POLICY);
    Ok(response)
}

/// The attention page of the first sentence of an answer.
fn page_of(service: &Service, answer: &TextAnswer, target: &str) -> Result<String, ApiError> {
    let no_words = || ApiError::Invalid("the text has no words".into());
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
