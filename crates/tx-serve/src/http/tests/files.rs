//! Files, their links and their limits.

use super::*;
use crate::options::PublicUrl;

fn file(name: &str, source: &str, content: &str) -> Request<Body> {
    let body = format!(
        "--x\r\nContent-Disposition: form-data; name=\"source\"\r\n\r\n{source}\r\n--x\r\nContent-Disposition: form-data; name=\"target\"\r\n\r\nit\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--x--\r\n"
    );
    request("POST", "/translate_file", "multipart/form-data; boundary=x", body)
}

#[tokio::test]
async fn files_are_translated() {
    let service = shared();
    let srt = "1\n00:00:01,000 --> 00:00:02,000\n{\\an8}the cat\n\n2\n00:00:03,000 --> 00:00:04,000\n12\n";
    for (name, content, expected) in [
        ("../a b.txt", "the cat", expected("the cat")),
        ("a.SRT", srt, srt.replace("the cat", &expected("the cat"))),
        ("a.html", "<p>the cat</p>", format!("<p>{}</p>", expected("the cat"))),
    ] {
        let answer = send(&service, file(name, "en", content)).await.json();
        let url = answer["translatedFileUrl"].as_str().unwrap();
        let answer = get(&service, url).await;
        assert_eq!(answer.body, expected, "{url}");
        assert!(answer.headers.contains("attachment; filename="), "{}", answer.headers);
        assert!(!url.contains("..") && !url.contains(' '), "{url}");
    }
    let answer = send(&service, file("a.docx", "en", "x")).await;
    assert!(
        answer.status == 400 && answer.body.contains("not a .docx document"),
        "{}",
        answer.body
    );
    assert_eq!(send(&service, file("a.pdf", "en", "x")).await.status, 400);
    assert_eq!(get(&service, "/download_file/0000/a.txt").await.status, 404);
}

#[tokio::test]
async fn the_link_to_a_file_has_the_address_that_clients_use() {
    let url = |service: Arc<Service>, headers: &[(&'static str, &str)]| {
        let mut request = file("a.txt", "en", "the cat");
        for (name, value) in headers {
            request.headers_mut().append(*name, value.parse().unwrap());
        }
        async move {
            let answer = send(&service, request).await.json();
            let url = answer["translatedFileUrl"].as_str().unwrap().to_owned();
            url.split("/download_file").next().unwrap().to_owned()
        }
    };
    let forwarded: &[_] = &[
        ("host", "localhost:5000"),
        ("x-forwarded-proto", "http"),
        ("x-forwarded-proto", "https"),
        ("x-forwarded-host", "example.org"),
    ];
    let direct = service(|_| {});
    assert_eq!(url(direct.clone(), &[]).await, "");
    // Everybody can send the headers of a proxy.
    assert_eq!(url(direct, forwarded).await, "http://localhost:5000");
    let proxied = service(|options| options.trusts_proxy = true);
    assert_eq!(url(proxied.clone(), forwarded).await, "https://example.org");
    let plain: &[_] = &[("host", "127.0.0.1:5000")];
    assert_eq!(url(proxied, plain).await, "http://127.0.0.1:5000");
    let known = "https://example.org/mt/".parse::<PublicUrl>().unwrap();
    let public = service(|options| options.public_url = Some(known));
    assert_eq!(url(public, forwarded).await, "https://example.org/mt");
}

/// The permit is taken before a file is read, so the second one is refused although it is invalid.
#[tokio::test]
async fn documents_in_progress_are_limited() {
    let service = service(|options| options.documents = 1);
    let permit = service.admit_document().unwrap();
    let answer = send(&service, file("a.docx", "en", "x")).await;
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(answer.headers.contains("retry-after") && answer.body.contains("documents"));
    drop(permit);
    assert_eq!(send(&service, file("a.docx", "en", "x")).await.status, 400);
    assert_eq!(send(&service, file("a.txt", "en", "the cat")).await.status, 200);
    assert!(service.admit_document().is_ok());
}
