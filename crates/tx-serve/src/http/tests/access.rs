//! Keys, hosts and origins.

use super::*;
use crate::options::Cors;

#[tokio::test]
async fn keys_are_needed_and_limited_if_there_is_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    std::fs::write(&path, "[[key]]\nname = 'a'\nkey = 'first-secret-key-1'\nrequests_per_minute = 3\n[[key]]\nname = 'root'\nkey = 'admin-secret-key-2'\nadmin = true\n").unwrap();
    let service = service(|options| options.keys = Some(path));
    let body =
        |key: &str| json!({ "q": "the cat", "source": "en", "target": "it", "api_key": key });
    assert_eq!(post(&service, "/translate", body("")).await.status, 403);
    assert_eq!(post(&service, "/translate", body("wrong")).await.status, 403);
    for status in [200, 200, 200, 429] {
        let answer = post(&service, "/translate", body("first-secret-key-1")).await;
        assert_eq!(answer.status, status);
        assert_eq!(answer.headers.contains("retry-after"), status == 429);
    }
    let mut request = request(
        "POST",
        "/v2/translate",
        "application/json",
        json!({ "text": "a", "target_lang": "it", "source_lang": "en" }).to_string(),
    );
    let header = "DeepL-Auth-Key admin-secret-key-2".parse().unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, header);
    assert_eq!(send(&service, request).await.status, 200);
    // A key in an address would be logged.
    let path = "/translate?api_key=admin-secret-key-2";
    assert_eq!(
        post(&service, path, json!({ "q": "a", "source": "en", "target": "it" })).await.status,
        403
    );

    for (key, status) in [("", 403), ("first-secret-key-1", 429), ("admin-secret-key-2", 200)] {
        let answer = post(&service, "/admin/reload", json!({ "api_key": key })).await;
        assert_eq!(answer.status, status, "{}", answer.body);
    }
    let put =
        json!({ "api_key": "admin-secret-key-2", "name": "fr-en", "folder": fixture::folder() });
    assert_eq!(post(&service, "/admin/models", put).await.status, 200);
    assert_eq!(service.registry.models().len(), 3);
    let wrong = json!({ "api_key": "admin-secret-key-2", "name": "fr-en", "folder": "/no/such" });
    assert_eq!(post(&service, "/admin/models", wrong).await.status, 400);
    let remove = |name: &str| {
        let body = json!({ "api_key": "admin-secret-key-2" }).to_string();
        self::request("DELETE", &format!("/admin/models/{name}"), "application/json", body)
    };
    assert_eq!(send(&service, remove("fr-en")).await.status, 200);
    assert_eq!(send(&service, remove("fr-en")).await.status, 404);
}

#[tokio::test]
async fn administration_needs_a_file_of_keys() {
    let service = shared();
    assert_eq!(post(&service, "/admin/reload", json!({})).await.status, 403);
}

/// `GET` with headers.
fn with(path: &str, headers: &[(&'static str, &str)]) -> Request<Body> {
    let mut request = Request::builder().uri(path).body(Body::empty()).unwrap();
    for (name, value) in headers {
        request.headers_mut().append(*name, value.parse().unwrap());
    }
    request
}

const KEYS: &str = "[[key]]\nname = 'a'\nkey = 'first-secret-key-1'\n";

#[tokio::test]
async fn a_file_without_keys_opens_no_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let mut options =
        ServerOptions::new(vec![ModelSpec { name: "en-it".into(), folder: fixture::folder() }]);
    options.keys = Some(path.clone());
    for empty in ["", "\n# comment\n", "key = []\n"] {
        std::fs::write(&path, empty).unwrap();
        let error = Service::new(options.clone()).err().unwrap().to_string();
        assert!(error.contains("it has no key"), "{error}");
    }
    std::fs::write(&path, KEYS).unwrap();
    let service = Arc::new(Service::new(options).unwrap());
    let detect = |key: &str| post(&service, "/detect", json!({ "q": "the cat", "api_key": key }));
    for content in [Some(""), Some("broken ["), None] {
        match content {
            Some(content) => std::fs::write(&path, content).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        assert_eq!(service.reload().len(), 1);
        assert_eq!(detect("").await.status, 403);
        assert_eq!(detect("first-secret-key-1").await.status, 200);
    }
}

#[tokio::test]
async fn routes_need_a_key_before_they_read_a_body() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    std::fs::write(&path, KEYS).unwrap();
    let service = service(|options| {
        options.keys = Some(path);
        options.limits.requests_per_minute = Some(40);
    });
    let key = ("authorization", "DeepL-Auth-Key first-secret-key-1");
    for path in ["/v2/usage", "/v2/languages", "/v2/languages?type=target"] {
        assert_eq!(send(&service, with(path, &[])).await.status, 403, "{path}");
        assert_eq!(send(&service, with(path, &[key])).await.status, 200, "{path}");
    }
    for path in [
        "/",
        "/health",
        "/languages",
        "/frontend/settings",
        "/metrics",
        "/v1/models",
        "/v2/models/en-it",
        "/spec",
    ] {
        assert_eq!(send(&service, with(path, &[])).await.status, 200, "{path}");
    }
    // A body that never ends: a wrong key and a length are refused without it.
    let endless =
        || Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
    let cases = [
        ("x-api-key", "wrong-secret-key-1", 403),
        ("content-length", "9999999", 413),
        ("content-type", "text/plain", 415),
    ];
    for path in [
        "/translate",
        "/detect",
        "/translate_file",
        "/v1/translate",
        "/attention",
        "/v2/translate",
        "/v2/languages",
        "/v2/models/en-it/infer",
        "/admin/reload",
    ] {
        for (name, value, status) in cases {
            let mut request = request("POST", path, "application/json", endless());
            request.headers_mut().insert("x-api-key", "first-secret-key-1".parse().unwrap());
            request.headers_mut().insert(name, value.parse().unwrap());
            assert_eq!(send(&service, request).await.status, status, "{path} {name}");
        }
    }
}

#[tokio::test]
async fn wrong_keys_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    std::fs::write(&path, KEYS).unwrap();
    let service = service(|options| options.keys = Some(path));
    let usage = |key: &str| send(&service, with("/v2/usage", &[("x-api-key", key)]));
    let mut statuses = Vec::new();
    for _ in 0..70 {
        statuses.push(usage("wrong-secret-key-1").await.status.as_u16());
    }
    let refused = statuses.iter().filter(|status| **status == 403).count();
    assert!((60..=62).contains(&refused) && statuses[69] == 429, "{statuses:?}");
    // Other clients may have the same address.
    assert_eq!(usage("first-secret-key-1").await.status, 200);
}

#[tokio::test]
async fn the_address_is_that_of_the_last_proxy() {
    let service = service(|options| {
        options.trusts_proxy = true;
        options.limits.requests_per_minute = Some(1);
    });
    let usage = |forged: &'static str, real: &str| {
        send(&service, with("/v2/usage", &[("x-forwarded-for", forged), ("x-forwarded-for", real)]))
    };
    assert_eq!(usage("9.9.9.1", "1.1.1.1").await.status, 200);
    assert_eq!(usage("9.9.9.2", "1.1.1.1").await.status, 429);
    assert_eq!(usage("9.9.9.2", "9.9.9.3, 1.1.1.2").await.status, 200);
}

#[tokio::test]
async fn a_loopback_server_answers_for_its_names_only() {
    let local = shared();
    let host = |service: &Arc<Service>, host: &str| {
        let (service, request) = (service.clone(), with("/health", &[("host", host)]));
        async move { send(&service, request).await.status.as_u16() }
    };
    for name in
        ["localhost:5000", "LOCALHOST.", "a.localhost", "127.0.0.1:5000", "[::1]:5000", "10.0.0.1"]
    {
        assert_eq!(host(&local, name).await, 200, "{name}");
    }
    for name in [
        "evil.example",
        "localhost.evil.example:5000",
        "127.0.0.1.evil.example",
        "",
        "[",
        "a@localhost",
    ] {
        assert_eq!(host(&local, name).await, 403, "{name}");
    }
    assert_eq!(get(&local, "/health").await.status, 200);
    let named = service(|options| options.hosts = vec!["mt.example.org".parse().unwrap()]);
    assert_eq!(
        (host(&named, "MT.example.org:80").await, host(&named, "evil.example").await),
        (200, 403)
    );
    let open = service(|options| options.listen = "0.0.0.0:0".parse().unwrap());
    assert_eq!(host(&open, "any.example").await, 200);
}

#[tokio::test]
async fn pages_of_other_origins_may_translate_and_not_administer() {
    let preflight = |path: &str, origin: &str| {
        Request::builder()
            .method("OPTIONS")
            .uri(path)
            .header("origin", origin)
            .header("access-control-request-method", "POST")
            .body(Body::empty())
            .unwrap()
    };
    let permits = |service: &Arc<Service>, path: &str, origin: &str| {
        let (service, request) = (service.clone(), preflight(path, origin));
        async move { send(&service, request).await.headers.contains("access-control-allow-origin") }
    };
    let any = service(|options| options.cors = Some(Cors::Any));
    assert!(permits(&any, "/translate", "https://example.org").await);
    assert!(!permits(&any, "/admin/reload", "https://example.org").await);
    // The default on a loopback address.
    let local = shared();
    for origin in ["http://localhost:8080", "http://127.0.0.1", "https://[::1]:1"] {
        assert!(permits(&local, "/translate", origin).await, "{origin}");
    }
    for origin in
        ["https://example.org", "http://localhost.evil.example", "http://10.0.0.1", "null"]
    {
        assert!(!permits(&local, "/translate", origin).await, "{origin}");
    }
}
