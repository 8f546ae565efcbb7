//! Cases of public bug reports. A stub translates: each word becomes upper case and is
//! aligned with itself, so that the expected answer is the document in upper case.

mod random;

use std::sync::Arc;

use tx_infer::{Alignment, Translation};

use super::*;
use crate::{
    error::MarkupError,
    fixture,
    plan::{Plan, PlanOptions},
    unit::{Done, Unit},
};

/// Translates each unit to its upper case. The model of the tests has no vocabulary for most words, but its
/// punctuation is that of English.
fn done(unit: &Unit) -> Done {
    let translation = Translation::of_text(unit.text.to_uppercase());
    let words: Vec<String> = unit.text.split_whitespace().map(str::to_owned).collect();
    let target: Vec<String> = translation.text.split_whitespace().map(str::to_owned).collect();
    let row = |word| (0..words.len()).map(|other| f32::from(u8::from(word == other))).collect();
    let weights = (0..target.len()).map(row).collect();
    let alignment = Some(Alignment { source: words, target, weights });
    Done { translation, alignment: alignment.filter(|_| unit.align) }
}

fn options(format: Format) -> PlanOptions {
    PlanOptions { format, ..PlanOptions::default() }
}

fn translated_with(text: &str, options: &PlanOptions) -> Result<String, MarkupError> {
    let mut plan = Plan::new(text, fixture::translator(), options, &fixture::deadline())?;
    let results: Vec<Done> = plan.take_units().iter().map(done).collect();
    Ok(plan.finish(&results, 0))
}

fn check(format: Format, cases: &[(&str, &str)]) {
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|(source, expected)| {
            let found = translated_with(source, &options(format)).unwrap();
            (found != *expected).then(|| format!("{source}\n    {found}\n    {expected}"))
        })
        .collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn borders_of_html_text_are_kept() {
    check(
        Format::Html,
        &[
            // Footnote marks.
            (
                "<p>The cat sleeps.<sup>1</sup> The dog eats.</p>",
                "<p>THE CAT SLEEPS.<sup>1</sup> THE DOG EATS.</p>",
            ),
            (
                "<p>The cat sleeps.<sup>1</sup>The dog eats.</p>",
                "<p>THE CAT SLEEPS.<sup>1</sup>THE DOG EATS.</p>",
            ),
            ("<p>The cat<sup>2</sup> sleeps.</p>", "<p>THE CAT<sup>2</sup> SLEEPS.</p>"),
            (
                "<p>word<sup><a href=\"#1\">[1]</a></sup> The cat.</p>",
                "<p>WORD<sup><a href=\"#1\">[1]</a></sup> THE CAT.</p>",
            ),
            ("<p>It sleeps.[1] It eats.[2][3]</p>", "<p>IT SLEEPS.[1] IT EATS.[2][3]</p>"),
            ("<p>Name<b>*</b> and <i>†</i> sign</p>", "<p>NAME<b>*</b> AND <i>†</i> SIGN</p>"),
            ("<p>H<sub>2</sub>o is wet</p>", "<p><sub>H2O</sub> IS WET</p>"),
            ("<p>H<sub>2</sub>O IS wet</p>", "<p>H<sub>2</sub>O IS WET</p>"),
            ("<p>In <b>2016</b> we ran</p>", "<p>IN <b>2016</b> WE RAN</p>"),
            // Two texts without white space between them.
            (
                "<p>The cat sleeps.<b>The dog eats.</b></p>",
                "<p>THE CAT SLEEPS.<b>THE DOG EATS.</b></p>",
            ),
            (
                "<nav><a href=\"/\">Home</a><a href=\"/h\">The house</a><a href=\"/d\">The dog</a></nav>",
                "<nav><a href=\"/\">HOME</a><a href=\"/h\">THE HOUSE</a><a href=\"/d\">THE DOG</a></nav>",
            ),
            ("<a>one</a><a>two</a>", "<a>ONE</a><a>TWO</a>"),
            ("<b>One.</b><b>Two.</b> three", "<b>ONE.</b><b>TWO.</b> THREE"),
            ("<span>Inbox</span><span>New</span>", "<span>INBOX</span><span>NEW</span>"),
            ("<b>Name:</b><span>john</span>", "<b>NAME:</b><span>JOHN</span>"),
            ("un<b>believ</b>able", "<b>UNBELIEVABLE</b>"),
            ("<a>cat</a>s sleep", "<a>CATS</a> SLEEP"),
            ("one<img src=a>two", "ONE<img src=a>TWO"),
            ("one<code>x</code>two three", "ONE<code>x</code>TWO THREE"),
            ("wo<wbr>rd", "WORD<wbr>"),
            // White space at inline elements.
            ("See <code>x</code>", "SEE <code>x</code>"),
            ("See <code>x</code>.", "SEE <code>x</code>."),
            ("Thank you <img src=a>", "THANK YOU <img src=a>"),
            ("See <span translate=\"no\">ACME</span>", "SEE <span translate=\"no\">ACME</span>"),
            ("<code>x</code> The cat sleeps.", "<code>x</code> THE CAT SLEEPS."),
            ("<img src=a><a href=x>link</a> text", "<img src=a><a href=x>LINK</a> TEXT"),
            ("go <img src=a><a href=x>link</a>", "GO <img src=a><a href=x>LINK</a>"),
            ("go <a href=x><img src=a></a> now", "GO <a href=x><img src=a></a> NOW"),
            ("go <a href=x><img src=a> there</a>", "GO <a href=x><img src=a> THERE</a>"),
            ("one <img> <img> two", "ONE <img> <img> TWO"),
            ("one<img><img>two", "ONE<img><img>TWO"),
            ("One. <img> Two.", "ONE. <img> TWO."),
            ("One.<img> Two.", "ONE.<img> TWO."),
            ("One. <img>Two.", "ONE. <img>TWO."),
            ("foo<b> </b>bar", "FOO<b> </b>BAR"),
            ("the <b>red</b>, big house", "THE <b>RED</b>, BIG HOUSE"),
            ("(<a href=x>link</a>)", "(<a href=x>LINK</a>)"),
            ("<b>Hi!</b> There", "<b>HI!</b> THERE"),
            ("<b>all of it</b>", "<b>ALL OF IT</b>"),
            ("a <!-- note --> b", "A <!-- note -->B"),
            ("a<!-- note -->b c", "AB<!-- note --> C"),
            ("<a id=x></a>The cat", "<a id=x></a>THE CAT"),
            ("the wo<a id=x></a>rd", "THE WORD<a id=x></a>"),
            ("x <i class=icon></i> y", "X <i class=icon></i> Y"),
            ("<p>under<br>line<br/>two</p>", "<p>UNDER<br>LINE<br/>TWO</p>"),
            ("<pre>The cat\n  sleeps.</pre>", "<pre>THE CAT\n  SLEEPS.</pre>"),
            ("<textarea>\n one\n two</textarea>", "<textarea>\n ONE\n TWO</textarea>"),
            ("<select><option>one<option>two</select>", "<select><option>ONE<option>TWO</select>"),
            ("<template><p>one</p></template>", "<template><p>ONE</p></template>"),
            (
                "go <svg><path/><text>no</text></svg> now",
                "GO <svg><path/><text>no</text></svg> NOW",
            ),
            ("the <math><mi>x</mi></math> is", "THE <math><mi>x</mi></math> IS"),
            (
                "<ruby>cat<rp>(</rp><rt>no</rt><rp>)</rp></ruby> sleeps",
                "<ruby>CAT<rp>(</rp><rt>no</rt><rp>)</rp></ruby> SLEEPS",
            ),
            ("<P>one <B>two</B></P>", "<P>ONE <B>TWO</B></P>"),
            ("<a title=\"a > b\">one</a> two", "<a title=\"a > b\">ONE</a> TWO"),
            ("<p>one <b>two", "<p>ONE <b>TWO"),
            ("one &amp;amp; two &nbsp;", "ONE &amp;amp; TWO \u{a0}"),
            ("hello {name}, you", "HELLO {name}, YOU"),
            ("look at {{ a &lt; b }} now", "LOOK AT {{ a &lt; b }} NOW"),
            ("x <0>one two</0> y", "X <0>ONE TWO</0> Y"),
            ("x <0/> y", "X <0/> Y"),
            ("Thank you! \u{1F600} The cat sleeps.", "THANK YOU! \u{1F600} THE CAT SLEEPS."),
        ],
    );
}

#[test]
fn elements_that_are_not_translated_end_where_html_defines() {
    check(
        Format::Html,
        &[
            (
                "<ul><li translate=\"no\">The cat<li>The cat sleeps.</ul><p>Thank you.</p>",
                "<ul><li translate=\"no\">The cat<li>THE CAT SLEEPS.</ul><p>THANK YOU.</p>",
            ),
            (
                "<p class=\"notranslate\">The cat<p>The cat sleeps.",
                "<p class=\"notranslate\">The cat<p>THE CAT SLEEPS.",
            ),
            ("<p translate=no>Cat<div>Dog</div>", "<p translate=no>Cat<div>DOG</div>"),
            (
                "<table><tr><td class=\"notranslate\">ACME<td>cat<tr><td>dog</table>x",
                "<table><tr><td class=\"notranslate\">ACME<td>CAT<tr><td>DOG</table>X",
            ),
            (
                "<table><tr translate=no><td>a<td>b<tr><td>c</table>",
                "<table><tr translate=no><td>a<td>b<tr><td>C</table>",
            ),
            (
                "<table><tr><td translate=no>a</table><p>b</p>",
                "<table><tr><td translate=no>a</table><p>B</p>",
            ),
            ("<dl><dt translate=no>a<dd>b<dt>c</dl>", "<dl><dt translate=no>a<dd>B<dt>C</dl>"),
            (
                "<select><option translate=no>a<option>b</select>",
                "<select><option translate=no>a<option>B</select>",
            ),
            (
                "<ul><li translate=no>a<ul><li>b<li>c</ul>d<li>e</ul>",
                "<ul><li translate=no>a<ul><li>b<li>c</ul>d<li>E</ul>",
            ),
            ("<div><p translate=no>a</div>b", "<div><p translate=no>a</div>B"),
            ("<div><span translate=no>a</div>b", "<div><span translate=no>a</div>B"),
            ("go <span translate=\"no\"/>a</span> b", "GO <span translate=\"no\"/>a</span> B"),
            ("go <x-y translate=\"no\"/> b", "GO <x-y translate=\"no\"/> B"),
            (
                "<div translate=no>a <b translate=yes>one two</b> c</div>d",
                "<div translate=no>a <b translate=yes>ONE TWO</b> c</div>D",
            ),
            (
                "<ul translate=no><li translate=yes>one<li>two</ul>three",
                "<ul translate=no><li translate=yes>ONE<li>two</ul>THREE",
            ),
            ("<code translate=yes>one</code> two", "<code translate=yes>ONE</code> TWO"),
            ("<p translate=no>a<p translate=no>b<p>c", "<p translate=no>a<p translate=no>b<p>C"),
            (
                "<div class=notranslate>a<div>b</div>c</div>d",
                "<div class=notranslate>a<div>b</div>c</div>D",
            ),
            ("<b translate=no>a<br>b</b> c", "<b translate=no>a<br>b</b> C"),
            ("<script>a<b</script>one", "<script>a<b</script>ONE"),
            ("a <style>b{}</style>c", "A <style>b{}</style>C"),
        ],
    );
    let tags = TagOptions {
        ignored: vec!["x".into()],
        splitting: vec!["s".into()],
        non_splitting: vec!["div".into()],
        ..TagOptions::default()
    };
    let options = PlanOptions { tags: Arc::new(tags), ..options(Format::Html) };
    for (source, expected) in [
        ("The <x>cat</x> sleeps.", "THE <x>cat</x> SLEEPS."),
        ("one<s>two</s>", "ONE<s>TWO</s>"),
        ("one <div>two</div> three", "ONE <div>TWO</div> THREE"),
    ] {
        assert_eq!(translated_with(source, &options).unwrap(), expected);
    }
}

#[test]
fn xml_is_xml() {
    check(
        Format::Xml,
        &[
            (
                "<doc>\n  <par>the dog</par>\n  <par>the tree</par>\n</doc>",
                "<doc>\n  <par>THE DOG</par>\n  <par>THE TREE</par>\n</doc>",
            ),
            (
                "<?xml version=\"1.0\"?>\n<!DOCTYPE r>\n<r>\n\t<string name=\"a\">the dog</string>\n</r>\n",
                "<?xml version=\"1.0\"?>\n<!DOCTYPE r>\n<r>\n\t<string name=\"a\">THE DOG</string>\n</r>\n",
            ),
            (
                "<doc><code>the dog</code><script>the tree</script></doc>",
                "<doc><code>THE DOG</code><script>THE TREE</script></doc>",
            ),
            ("<![CDATA[the dog]]> the tree", "<![CDATA[THE DOG]]> THE TREE"),
            ("<s><![CDATA[<b>the</b> dog & cat]]></s>", "<s><![CDATA[<b>THE</b> DOG & CAT]]></s>"),
            ("the <x id=\"7\"></x>, dog", "THE <x id=\"7\"></x>, DOG"),
            ("the <x id=\"7\"/> dog", "THE <x id=\"7\"/> DOG"),
            ("<a>one</a><a>two</a>", "<a>ONE</a><a>TWO</a>"),
            ("<p>one\n   two</p>", "<p>ONE TWO</p>"),
            ("<p>\n one <g>two</g>\n</p>", "<p>\n ONE <g>TWO</g>\n</p>"),
            ("<p>one <!-- c -->two</p>", "<p>ONE <!-- c -->TWO</p>"),
            ("<p>one <?pi x?> two</p>", "<p>ONE <?pi x?>TWO</p>"),
            ("<p>one &custom; two &lt; &amp; &#65;</p>", "<p>ONE &custom; TWO &lt; &amp; A</p>"),
            ("<p>AT&T here</p>", "<p>AT&amp;T HERE</p>"),
            ("<n:p xmlns:n='u' n:a='>'>one</n:p>", "<n:p xmlns:n='u' n:a='>'>ONE</n:p>"),
            ("<P>one</P><p>two</p>", "<P>ONE</P><p>TWO</p>"),
            ("<br>one</br>", "<br>ONE</br>"),
            ("<p>one <b>two</b> <i>three</i></p>", "<p>ONE <b>TWO</b> <i>THREE</i></p>"),
            (
                "<r><s translatable=\"false\">one</s><s>two</s></r>",
                "<r><s translatable=\"false\">one</s><s>TWO</s></r>",
            ),
            (
                "go <xliff:g id=\"n\">the n</xliff:g> now",
                "GO <xliff:g id=\"n\">the n</xliff:g> NOW",
            ),
            ("\u{feff}<a>one</a>", "\u{feff}<a>ONE</a>"),
            ("plain text", "PLAIN TEXT"),
            ("", ""),
        ],
    );
    for wrong in ["<a>one", "one</a>", "<a>one</b>", "<a", "one < two", "<a b=\">x"] {
        let error = translated_with(wrong, &options(Format::Xml));
        assert!(matches!(error, Err(MarkupError::Invalid(_))), "{wrong}: {error:?}");
    }
}

#[test]
fn elements_of_xml_are_ignored_and_split_by_name() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let found = |source: &str, tags: TagOptions| {
        let options = PlanOptions { tags: Arc::new(tags), ..options(Format::Xml) };
        let mut plan =
            Plan::new(source, fixture::translator(), &options, &fixture::deadline()).unwrap();
        let units = plan.take_units();
        let texts: Vec<String> = units.iter().map(|unit| unit.text.clone()).collect();
        let results: Vec<Done> = units.iter().map(done).collect();
        (texts.join("|"), plan.finish(&results, 0))
    };
    let all = |units: &str, text: &str| (units.to_owned(), text.to_owned());
    let source = "<p>the dog <raw>the tree is small</raw> is red</p>";
    let ignored = TagOptions { ignored: names(&["raw"]), ..TagOptions::default() };
    assert_eq!(
        found(source, ignored.clone()),
        all("the dog is red", "<p>THE DOG <raw>the tree is small</raw> IS RED</p>")
    );
    // Names are those of XML, in which case matters.
    assert_eq!(
        found("<RAW>one</RAW><raw>two <b>x</b></raw>", ignored),
        all("one", "<RAW>ONE</RAW><raw>two <b>x</b></raw>")
    );
    let source = "<d>one <s>two</s> three</d>";
    assert_eq!(
        found(source, TagOptions::default()),
        all("one two three", "<d>ONE <s>TWO</s> THREE</d>")
    );
    let splitting = TagOptions { splitting: names(&["s"]), ..TagOptions::default() };
    assert_eq!(found(source, splitting), all("one|two|three", "<d>ONE <s>TWO</s> THREE</d>"));
    let source = "<d><s>one</s> <s>two</s></d>";
    assert_eq!(found(source, TagOptions::default()).0, "one|two");
    let part = TagOptions { non_splitting: names(&["s", "d"]), ..TagOptions::default() };
    assert_eq!(found(source, part), all("one two", "<d><s>ONE</s> <s>TWO</s></d>"));
    let flat = TagOptions { outline: false, ..TagOptions::default() };
    assert_eq!(found(source, flat), all("one two", "<d><s>ONE</s> <s>TWO</s></d>"));
}

#[test]
fn tags_placeholders_and_symbols_of_plain_text_are_kept() {
    check(
        Format::Text,
        &[
            ("The cat <br/>", "THE CAT <br/>"),
            ("<br/> The cat", "<br/> THE CAT"),
            ("The cat sleeps.[1] The dog eats.", "THE CAT SLEEPS.[1] THE DOG EATS."),
            ("Thank you! \u{1F600} The cat sleeps.", "THANK YOU! \u{1F600} THE CAT SLEEPS."),
            ("The cat \u{1F436} sleeps.", "THE CAT \u{1F436} SLEEPS."),
            ("\u{266A} la la \u{266A}", "\u{266A} LA LA \u{266A}"),
            ("\u{a9} acme \u{2192} home \u{2022} end", "\u{a9} ACME \u{2192} HOME \u{2022} END"),
            (
                "go \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} now",
                "GO \u{1F468}\u{200D}\u{1F469}\u{200D}\u{1F467} NOW",
            ),
            ("nice\u{1F44D}\u{1F3FD}", "NICE\u{1F44D}\u{1F3FD}"),
            ("\u{1F600}", "\u{1F600}"),
            ("hello {name}!", "HELLO {name}!"),
            (
                "you have {count, plural, one {# cat. Go} other {# cats}} here",
                "YOU HAVE {count, plural, one {# cat. Go} other {# cats}} HERE",
            ),
            (
                "{n, plural, =0 {no {x} cats} other {{n, number} cats}}",
                "{n, plural, =0 {no {x} cats} other {{n, number} cats}}",
            ),
            ("read <0>the docs</0> now", "READ <0>THE DOCS</0> NOW"),
            ("read <1/> now", "READ <1/> NOW"),
            ("see $t(key) and $t(a, {\"count\": 1})", "SEE $t(key) AND $t(a, {\"count\": 1})"),
            ("hello :name, go", "HELLO :name, GO"),
            ("see @:link.a now", "SEE @:link.a NOW"),
            ("see @:{'a b'} now", "SEE @:{'a b'} NOW"),
            ("{{count}} of {{{all}}} cats", "{{count}} OF {{{all}}} CATS"),
            ("%@ has %1$s and %1$@", "%@ HAS %1$s AND %1$@"),
            ("go %d%% sure", "GO %d%% SURE"),
            ("a&nbsp;b &#39;c&#x27; d", "A&nbsp;B &#39;C&#x27; D"),
            ("see [[name]] and #{x} and %{y}", "SEE [[name]] AND #{x} AND %{y}"),
            ("hi %user_name% there", "HI %user_name% THERE"),
            ("hi {user.name!r:>10} there", "HI {user.name!r:>10} THERE"),
            ("hi { $name } there", "HI { $name } THERE"),
            ("hi {% if x %}you{% endif %}", "HI {% if x %}YOU{% endif %}"),
            ("one\\ntwo", "ONE\\nTWO"),
            (
                "see <xliff:g id=\"a\">the n</xliff:g> now",
                "SEE <xliff:g id=\"a\">the n</xliff:g> NOW",
            ),
            ("see <a title=\"x>y\">that</a> now", "SEE <a title=\"x>y\">THAT</a> NOW"),
            ("at 10:30 and note:this", "AT 10:30 AND NOTE:THIS"),
            ("{\\an8}Go on!", "{\\an8}GO ON!"),
        ],
    );
}
