use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;
use tx_infer::{Attention, AttentionKind, Bundle, Device, SearchOptions, Tokens};

use crate::{BUNDLE, Run, command, translator};

const TEXT: &str = "one two three";

fn attention(out: &Path, arguments: &[&str]) -> Run {
    let pair = ["--text", TEXT, "--out", out.to_str().unwrap()];
    command("attention", &[&pair[..], arguments].concat())
}

/// Computes the attention of `TEXT` and a target with the library.
fn expected(target: &str) -> Attention {
    let bundle = Bundle::open(BUNDLE.path()).unwrap();
    let engine = bundle.engine(&Device::Cpu).unwrap();
    let max_len = bundle.config.max_len;
    let source = Tokens::of_source(&bundle.tokenizers.source, TEXT, max_len).unwrap();
    let target = Tokens::of_target(&bundle.tokenizers.target, target, max_len).unwrap();
    Attention::of(&engine, source, target)
}

#[test]
fn json_contains_every_map_of_the_translation_or_of_a_given_target() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.json");
    assert_eq!(attention(&out, &["--quiet", "--target", "seven six"]).printed(), "");
    let json: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
    let expected = expected("seven six");
    for kind in AttentionKind::ALL {
        for (layer, heads) in expected.layers(kind).iter().enumerate() {
            for (head, map) in heads.iter().enumerate() {
                for (row, weights) in map.rows().enumerate() {
                    let found = &json[kind.name()]["layers"][layer][head][row];
                    assert_eq!(found.as_array().unwrap().len(), weights.len());
                    for (column, weight) in weights.iter().enumerate() {
                        let gap = found[column].as_f64().unwrap() - f64::from(*weight);
                        assert!(gap.abs() < 1e-5, "{kind:?}");
                    }
                }
            }
        }
    }
    assert_eq!(json["target"]["words"], serde_json::json!(["seven", "six"]));

    for (arguments, options) in [
        (&[][..], SearchOptions::default()),
        (&["--beam", "2", "--max-len", "2"], {
            SearchOptions { beam: 2, max_len: Some(2), ..SearchOptions::default() }
        }),
    ] {
        let found = attention(&out, arguments);
        let json: Value = serde_json::from_slice(&fs::read(&out).unwrap()).unwrap();
        let translation = translator(options).translate(TEXT).unwrap().text;
        let words: Vec<&str> = translation.split_whitespace().collect();
        assert_eq!(json["target"]["words"], serde_json::json!(words));
        assert_eq!((found.code, found.stdout.as_str()), (Some(0), ""));
        assert!(found.stderr.contains(&format!("translation: {translation}")), "{}", found.stderr);
    }
}

#[test]
fn pictures_are_complete_and_show_the_chosen_view() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("a.svg");
    attention(&svg, &["--quiet", "--kind", "encoder", "--layer", "1", "--head", "2"]).printed();
    let text = fs::read_to_string(&svg).unwrap();
    assert!(text.contains("Encoder self-attention, layer 1 of 1, head 2"), "{text}");
    assert!(text.starts_with("<svg") && text.ends_with("</svg>\n"));
    attention(&svg, &["--quiet", "--grid", "--words"]).printed();
    assert!(fs::read_to_string(&svg).unwrap().contains("layer 1, head 2"));

    let png = folder.path().join("a.png");
    let drawn = attention(&png, &["--quiet"]);
    if drawn.code == Some(2) {
        drawn.failed(2, &["no system font", "hint: "]);
        eprintln!("SKIPPED: this system has no font for a PNG");
        return;
    }
    drawn.printed();
    assert_eq!(fs::read(&png).unwrap()[..8], *b"\x89PNG\r\n\x1a\n");
}

#[test]
fn wrong_usage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("a.html");
    attention(&folder.path().join("a.pdf"), &[])
        .failed(2, &["does not end with .html, .svg", "hint"]);
    attention(&out, &["--layer", "2"]).failed(2, &["`--layer` = 2", "at most 1"]);
    attention(&out, &["--head", "3"]).failed(2, &["`--head` = 3", "at most 2"]);
    attention(&out, &["--grid", "--head", "1"]).failed(2, &["--grid"]);
    attention(&out, &["--target", "one", "--beam", "2"])
        .failed(2, &["`--target` conflicts with search options"]);
    attention(&out, &["--n-best", "5"]).failed(2, &["`n_best` = 5"]);
    let empty = command("attention", &["--text", " ", "--out", out.to_str().unwrap()]);
    empty.failed(2, &["`--text` has no words"]);
    attention("no/such/a.svg".as_ref(), &[]).failed(1, &["cannot write `no/such/a.svg`"]);
}

/// Returns the page in a browser after its script has run; none without a browser.
fn in_browser(page: &Path, fragment: &str) -> Option<String> {
    let profile = tempfile::tempdir().unwrap();
    let browsers = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
    for browser in browsers {
        let output = Command::new(browser)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("file://{}#{fragment}", page.display()))
            .stderr(Stdio::null())
            .output();
        if let Ok(output) = output
            && output.status.success()
        {
            return Some(String::from_utf8(output.stdout).unwrap());
        }
    }
    eprintln!("SKIPPED: no browser ({}) to open the page", browsers.join(", "));
    None
}

/// Writes a page of `TEXT` and a target.
fn page(folder: &TempDir, target: &str) -> std::path::PathBuf {
    let page = folder.path().join("page.html");
    attention(&page, &["--quiet", "--target", target]).printed();
    page
}

#[test]
fn in_a_browser_the_page_shows_the_weights_of_the_view_in_its_address() {
    let folder = tempfile::tempdir().unwrap();
    let page = page(&folder, "seven six");
    let Some(dom) = in_browser(&page, "kind=cross&layer=1&head=2&focus=3") else { return };
    for view in [
        "data-kind=\"cross\"",
        "data-layer=\"1\"",
        "data-head=\"2\"",
        "data-focus=\"3\"",
        "Cross-attention, layer 1 of 1, head 2",
    ] {
        assert!(dom.contains(view), "no {view} in:\n{dom}");
    }
    let expected = expected("seven six");
    let map = expected.map(AttentionKind::Cross, 0, Some(1)).unwrap();
    let names = |tokens: &Tokens| {
        tokens
            .tokens
            .iter()
            .map(|name| name.replace('<', "&lt;").replace('>', "&gt;"))
            .collect::<Vec<_>>()
    };
    let mut cells = 0;
    for (row, weights) in names(&expected.target).iter().zip(map.rows()) {
        for (column, weight) in names(&expected.source).iter().zip(weights) {
            // Some browsers do not escape markup in attributes.
            let label = format!("aria-label=\"{row} → {column}: {weight:.3}\"");
            let plain = label.replace("&lt;", "<").replace("&gt;", ">");
            assert!(dom.contains(&label) || dom.contains(&plain), "no {label} in:\n{dom}");
            cells += 1;
        }
    }
    assert_eq!(dom.matches("role=\"gridcell\"").count(), cells);
    // The third query is `<eos>`: it is selected, and its largest weight comes first.
    let third: Vec<f32> = map.rows().nth(2).unwrap().to_vec();
    let strongest = third.iter().copied().fold(0.0, f32::max);
    let column = third.iter().position(|weight| *weight == strongest).unwrap();
    let status = format!(
        "“\u{2068}&lt;eos&gt;\u{2069}” attends to “\u{2068}{}\u{2069}” {strongest:.3}",
        names(&expected.source)[column]
    );
    assert!(dom.contains(&status), "no {status} in:\n{dom}");
}

/// Keys that a user would press: into the target tokens, to the second of them, down into the source
/// tokens, and out with Escape.
#[test]
fn in_a_browser_the_page_works_with_the_keyboard_alone() {
    const KEYS: &str = "<script>
        const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        const note = () => { document.body.dataset.notes = (document.body.dataset.notes ?? '') + location.hash.replace(/.*head=mean/, '') + ';'; };
        document.querySelector('#queries [tabindex=\"0\"]').focus(); press('Enter'); note();
        press('ArrowRight'); press('Enter'); note();
        press('End'); press('Enter'); note();
        press('ArrowUp'); press('Enter'); note();
        document.querySelector('#map td[tabindex=\"0\"]').focus(); press('ArrowDown'); press('ArrowRight'); press('Enter'); note();
        press('Escape'); note();
    </script></body>";
    let folder = tempfile::tempdir().unwrap();
    let page = page(&folder, "seven six");
    let whole = fs::read_to_string(&page).unwrap();
    fs::write(&page, whole.replace("</body>", KEYS)).unwrap();
    let Some(dom) = in_browser(&page, "") else { return };
    let notes = "data-notes=\"&amp;focus=1;&amp;focus=2;&amp;focus=3;&amp;column=3;&amp;focus=2&amp;column=2;;\"";
    assert!(dom.contains(notes), "no {notes} in:\n{dom}");
}

#[test]
fn in_a_browser_a_text_is_text_and_right_to_left_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let evil = "שלום </script><script>document.title='taken'</script><b>";
    let page = page(&folder, evil);
    let Some(dom) = in_browser(&page, "words=true&focus=1") else { return };
    assert!(dom.contains("data-words=\"true\""), "{dom}");
    assert!(dom.contains("<title>Attention: one two three</title>"), "{dom}");
    assert!(!dom.contains("<b>") && !dom.contains("<script>document"), "{dom}");
    assert!(dom.contains("<bdi>שלום</bdi>"), "{dom}");
}
