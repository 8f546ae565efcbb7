use super::*;

/// Asserts that `parts`, joined by `gap`, are divided at the gaps.
#[track_caller]
fn divided(language: &str, gap: &str, parts: &[&str]) {
    let text = parts.join(gap);
    let language = Some(language).filter(|code| !code.is_empty());
    let found: Vec<&str> = sentences(&text, language).map(|span| &text[span]).collect();
    assert_eq!(found, parts, "{language:?}");
}

/// Asserts that `text` is one sentence.
#[track_caller]
fn whole(language: &str, text: &str) {
    divided(language, " ", &[text]);
}

#[test]
fn marks_end_sentences() {
    for language in ["", "en", "xx"] {
        divided(language, " ", &["The cat is here.", "Where?", "There!", "What?!", "No one knows"]);
    }
    divided("en", "\u{a0}", &["One sentence.", "Another one."]);
    divided("en", "   ", &["One sentence.", "\"Another one.\"", "(A third one.)", "Last one."]);
}

#[test]
fn line_breaks_end_sentences() {
    for gap in ["\n", "\r\n", "\n\n \t\n", "\u{2028}", "\u{2029}", "\u{85}"] {
        divided("en", gap, &["A line without a mark", "and another", "Dr.", "Smith"]);
    }
    assert_eq!(sentences(" \n\t\u{3000}\n", None).count(), 0);
    assert_eq!(sentences("", Some("de")).count(), 0);
    let text = "  Eins.  Zwei. \n";
    assert_eq!(sentences(text, Some("de")).collect::<Vec<_>>(), [2..7, 9..14]);
}

#[test]
fn abbreviations_of_english() {
    whole("en", "Dr. Smith met Mrs. Jones, e.g. at St. Paul's vs. Mr. J. R. Ewing.");
    whole(
        "en",
        "See Fig. 3, vol. 2, pp. 4, and No. 5 of Smith et al. 2019 in the U.S. Senate at Acme Inc. and Co. on Jan. 5.",
    );
    divided(
        "en",
        " ",
        &["He came at 5 p.m.", "The train left.", "He lives in the U.S.", "It is big."],
    );
    divided("en", " ", &["Apples, pears, etc.", "Nothing else.", "He said no.", "And so on."]);
    whole("en", "J. K. Rowling and George W. Bush met M. Night Shyamalan.");
    divided("en", " ", &["That is plan B.", "The other is plan A."]);
}

#[test]
fn abbreviations_and_ordinals_of_german() {
    whole(
        "de",
        "Am 3. Oktober kam Dr. Meier, z. B. mit Hrn. Prof. Dr. Müller und d. h. bzw. der 2. Klasse.",
    );
    whole(
        "de",
        "Friedrich II. König von Preußen, geb. 1712, vgl. S. 5 und Nr. 7 im 19. Jahrhundert.",
    );
    divided(
        "de",
        " ",
        &["Das war 1990.", "Danach kam der 3. Mann.", "Er hatte Äpfel usw.", "Dann ging er."],
    );
    divided("deu", " ", &["Er wohnt in der Hauptstr.", "Sie nicht."]);
    whole("de_DE", "Die Fa. Maier GmbH & Co. KG wurde am 1. 4. 1950 gegründet.");
}

#[test]
fn abbreviations_of_other_languages() {
    divided("fr", " ", &["M. Dupont et Mme. Durand, cf. p. 5, sont là.", "Où ?", "Ici !", "Bien."]);
    divided("fr", " ", &["Il dit : « Viens ! »", "Elle vint."]);
    divided(
        "es",
        " ",
        &["El Sr. Pérez y la Dra. Ruiz, p. ej. en EE. UU., vienen.", "¿Cuándo?", "¡Ya!", "Sí."],
    );
    divided("it", " ", &["Il dott. Rossi abita al n. 5, cfr. pag. 7, ecc.", "La casa è rossa."]);
    divided("pt_BR", " ", &["O Sr. Silva e a Dra. Souza vieram.", "Ele mora na Av. Paulista."]);
    divided("nld", " ", &["Dhr. Jansen, d.w.z. mr. Jansen, woont op nr. 5.", "Hij is er niet."]);
    divided("sv", " ", &["T.ex. dr. Berg bor på nr. 5.", "Han är inte här."]);
    divided("pl", " ", &["Prof. dr hab. J. Kowalski, m.in. autor, ur. 5. maja.", "Nie ma go."]);
    divided("cs", " ", &["Dne 3. října přišel Ing. Novák, tzv. mistr.", "Kde je?"]);
    divided(
        "ru",
        " ",
        &["А. С. Пушкин жил на ул. Мойке, т. е. в г. Петербурге.", "Где он?", "Нет его и т. д."],
    );
    divided("uk", " ", &["Т. Г. Шевченко, див. рис. 5, жив на вул. Садовій.", "Де він?"]);
    divided("tr", " ", &["Dr. Yılmaz 3. sınıfta, bkz. s. 5.", "Nerede?"]);
}

#[test]
fn numbers_addresses_and_file_names_have_no_boundary() {
    whole(
        "en",
        "It costs 3.14 or 1.000.000 at www.example.com/a?b=c.d!e or in file.tar.gz of v1.2.3 today",
    );
    whole("en", "Write to a.b@example.org. because");
    divided(
        "en",
        " ",
        &["It was 1990.", "Version 2.0 came.", "See https://example.com.", "It works."],
    );
    divided("en", "\n", &["1. First item", "2. Second item"]);
}

#[test]
fn ellipses() {
    divided("en", " ", &["Well...", "Yes.", "He waited…", "Then he left."]);
    whole("en", "Well... yes, he waited . . . and … left.");
    divided("en", " ", &["Wait . . .", "Nobody came."]);
}

#[test]
fn quotation_marks_and_brackets() {
    divided("en", " ", &["“Come here!”", "He came.", "'Really?'", "(Yes.)", "She left [sic]."]);
    whole("en", "“Really?” he asked.");
    whole("en", "The cat (Mr. Tom? Yes. It is him.) sleeps.");
    divided("en", " ", &["He came.", "☺ She left.", "It is so (see below)."]);
    divided("de", " ", &["„Komm!“", "»Nein.«", "Er ging.", "‚Gut.‘"]);
    whole("ru", "«Кто там?» – спросил он.");
    divided("en", " ", &["It is true.[1][23]", "That is known."]);
    // Brackets without a partner.
    divided("en", " ", &["A :( sad face.", "A :) happy face.", "a) First.", "Last."]);
}

#[test]
fn scripts_without_spaces() {
    divided(
        "zh",
        "",
        &["你好。", "你是谁？", "他说：“我来了。”", "真的！", "好（是。真的。）吗？"],
    );
    divided(
        "ja",
        "",
        &["猫がいます。", "「はい。」", "猫ですか？", "「はい。そうです。」と言った。"],
    );
    divided("zh_Hans", "", &["家庭.", "母亲."]);
    divided("", " ", &["猫です。", "犬です｡"]);
    whole("th", "ฉันรักแมว แมวรักฉัน");
    divided("km", "", &["ខ្ញុំស្រឡាញ់ឆ្មា។", "ឆ្មាស្រឡាញ់ខ្ញុំ។"]);
}

#[test]
fn marks_of_other_scripts() {
    divided("el", " ", &["Πού είναι η γάτα;", "Εδώ, π.χ. στο σπίτι.", "Τι;\u{37e}"]);
    divided("ell_Grek", " ", &["Ποιος;", "Εγώ."]);
    whole("en", "first; Second");
    divided("ar", " ", &["أين القطة؟", "هنا.", "نعم!"]);
    divided("ur", " ", &["یہ بلی ہے۔", "کہاں؟"]);
    divided("hi", " ", &["बिल्ली यहाँ है।", "वह कहाँ है?", "पुस्तक॥"]);
    divided("hy", " ", &["Կատուն այստեղ է։", "Որտե՞ղ է։"]);
    divided("am", " ", &["ድመት እዚህ ነው።", "የት?"]);
}

#[test]
fn lower_case_begins_a_sentence_after_a_long_word() {
    divided("en", " ", &["it is a great place.", "other than that i don't know."]);
    whole("en", "He came approx. at five, resp. at abt. six.");
    whole("de", "Die Univ. in Berlin, bzw. evtl. die andere.");
    divided("en", " ", &["what?", "no way."]);
}

#[test]
fn codes_select_languages() {
    assert!(std::ptr::eq(Language::of(Some("deu_Latn")), Language::of(Some("DE-at"))));
    assert!(!std::ptr::eq(Language::of(Some("de")), Language::of(None)));
    assert!(std::ptr::eq(Language::of(Some("xx")), Language::of(None)));
    assert!(languages().is_sorted());
}

/// Every character is read a bounded number of times, whatever the text.
#[test]
fn time_is_linear() {
    let patterns = [
        ".", ")", ". ", ".)", "!\"", "a", "a.", "A. ", "1. ", "( ", "(.", "「。", "。", ". . ",
        "[1]", ".[1", "—", "\u{a0}.", "z. B. ", "-", "'", ",,",
    ];
    for pattern in patterns {
        for prefix in ["", "A.", "A. ", "(", "«", "?", "1. "] {
            let text = format!("{prefix}{}", pattern.repeat(2000));
            let line = Line::new(&text);
            let brackets = Brackets::of(&text, 0);
            let (mut start, mut steps) = (0, 0);
            while start < text.len() {
                let end = rules::sentence_end(&line, start, Language::of(Some("de")), &brackets);
                assert!(end > start);
                start = end;
                steps += 1;
            }
            assert!(steps <= text.len());
            let reads = line.reads.get();
            assert!(reads <= 200 * text.len(), "{prefix}{pattern}: {reads} of {}", text.len());
        }
    }
}
