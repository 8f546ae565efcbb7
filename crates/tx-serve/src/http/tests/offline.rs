//! The page that translates in the browser, and the models that it may download.

use std::fs;

use super::*;
use crate::{error::ServeError, options::OfflinePage};

/// A folder that looks like the page, with a file beside it.
fn page() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    fs::create_dir_all(page.join("txmt")).unwrap();
    fs::write(page.join("index.html"), "<p>offline").unwrap();
    fs::write(page.join("txmt/txmt.wasm"), "wasm").unwrap();
    fs::write(folder.path().join("secret"), "secret").unwrap();
    folder
}

fn offering(folder: &tempfile::TempDir, models: &[&str]) -> Arc<Service> {
    let models = models.iter().map(|name| (*name).to_owned()).collect();
    let page = OfflinePage { folder: folder.path().join("page"), models };
    service(|options| options.offline = Some(page))
}

#[tokio::test]
async fn the_page_and_the_offered_models_are_served() {
    let folder = page();
    let service = offering(&folder, &["en-it"]);
    for (path, content_type, body) in [
        ("/offline/", "text/html", "<p>offline"),
        ("/offline/txmt/txmt.wasm", "application/wasm", "wasm"),
    ] {
        let answer = get(&service, path).await;
        assert_eq!((answer.status, &*answer.body), (StatusCode::OK, body), "{path}");
        assert!(answer.headers.contains(content_type), "{path}: {}", answer.headers);
        assert!(answer.headers.contains("'wasm-unsafe-eval'"), "{path}: {}", answer.headers);
    }
    let models = get(&service, "/offline/models.json").await.json();
    assert_eq!(models, json!([{ "name": "en-it", "address": "served/en-it/" }]));
    let own = r#"[{"name": "small", "address": "models/small.tar"}]"#;
    fs::create_dir(folder.path().join("page/models")).unwrap();
    fs::write(folder.path().join("page/models.json"), own).unwrap();
    fs::write(folder.path().join("page/models/small.tar"), "small").unwrap();
    let models = get(&service, "/offline/models.json").await.json();
    let names = [&models[0]["name"], &models[1]["name"]];
    assert_eq!((names, models.as_array().unwrap().len()), ([&json!("small"), &json!("en-it")], 2));
    assert_eq!(get(&service, "/offline/models/small.tar").await.body, "small");
    let config = get(&service, "/offline/served/en-it/config.toml").await;
    assert_eq!(config.body, fs::read_to_string(fixture::folder().join("config.toml")).unwrap());
    assert_eq!(get(&service, "/frontend/settings").await.json()["offline"], true);
    assert_eq!(get(&shared(), "/frontend/settings").await.json()["offline"], false);
}

/// Neither other models, nor other files.
#[tokio::test]
async fn nothing_else_is_served() {
    let folder = page();
    let service = offering(&folder, &["en-it"]);
    fs::write(folder.path().join("page/other.txt"), "other").unwrap();
    for path in [
        "/offline/served/it-fr/config.toml",
        "/offline/served/it-fr.tar",
        "/offline/served/en-it.tar",
        "/offline/served/en-it/other.txt",
        "/offline/served/en-it/..%2fconfig.toml",
        "/offline/served/..%2f..%2fsecret/config.toml",
        "/offline/../secret",
        "/offline/..%2fsecret",
        "/offline/%2e%2e/secret",
        "/offline/none",
    ] {
        let answer = get(&service, path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}: {}", answer.body);
        assert!(!answer.body.contains("secret"), "{path}");
    }
    assert_eq!(get(&shared(), "/offline/").await.status, StatusCode::NOT_FOUND);
}

#[test]
fn a_page_that_is_not_complete_is_refused() {
    let folder = page();
    let start = |folder: &std::path::Path, models: &[&str]| {
        let spec = ModelSpec { name: "en-it".into(), folder: fixture::folder() };
        let mut options = ServerOptions::new(vec![spec]);
        let models = models.iter().map(|name| (*name).to_owned()).collect();
        options.offline = Some(OfflinePage { folder: folder.into(), models });
        Service::new(options).err().unwrap()
    };
    assert!(matches!(start(folder.path(), &[]), ServeError::NoPage { .. }));
    let error = start(&folder.path().join("page"), &["en-it", "de-fr"]);
    assert_eq!(error.to_string(), "no model has the name `de-fr`");
    assert!(error.hint().is_some());
}
