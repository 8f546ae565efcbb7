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
fn marks_of_items_stay_with_their_items() {
    for marks in [
        ["1.)", "2.)", "3.)"],
        ["9)", "10)", "11)"],
        ["1.", "2.", "3."],
        ["• 9.", "• 10.", "• 11."],
        ["⁃9.", "⁃10.", "⁃11."],
        ["•", "•", "•"],
        ["a.", "b.", "c."],
        ["x)", "y)", "z)"],
        ["- A)", "- B)", "- C)"],
    ] {
        for items in [
            ["The first one", "Another one", "The last one"],
            ["The first one.", "Another one?", "The last one."],
        ] {
            let parts: Vec<String> =
                marks.iter().zip(items).map(|(mark, item)| format!("{mark} {item}")).collect();
            let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
            divided("en", " ", &parts);
            divided("da", " ", &parts);
        }
    }
    // Only one item, other numbers, ordinals, brackets, a sentence that goes on, and initials.
    whole("en", "1) The first step (see 2) for more) has 3) parts");
    whole("en", "• 1. The item 3) is not the next");
    whole("de", "1. FC Köln und 2. Bundesliga");
    whole("pl", "1) pierwszy punkt; 2) drugi punkt");
    whole("en", "A. B. Smith came");
    divided("en", " ", &["IV. The fourth part.", "It is short."]);
    divided("en", " ", &["The list is short.", "a) First", "b) Last"]);
}

#[test]
fn units_and_numbers_with_a_degree_sign() {
    divided(
        "en",
        " ",
        &["The engine reached 120.5°C.", "Luckily, it stopped.", "It was 30 °F.", "Now?"],
    );
    divided("", " ", &["20°C.", "Bien."]);
    whole("en", "You find it at N°. 1026.253.553 of the map");
}

#[test]
fn an_exclamation_mark_in_a_sentence_ends_none() {
    whole("en", "She works at Yahoo! in the accounting department.");
    whole("es", "¡Hola! dijo Juan.");
    divided(
        "en",
        " ",
        &["It is so good!", "really good.", "Horrible!", "very bad.", "At Acme!!", "so."],
    );
    divided("en", " ", &["He works at Yahoo!", "She does not."]);
}

#[test]
fn references_belong_to_their_quotation() {
    whole("en", "\"He used the stairs [...]\" (Smith 55).");
    divided("en", " ", &["“He left.”", "(Nobody knew.)", "It is so."]);
    divided("en", " ", &["“He left.” (Smith 55).", "“Yes?” (ib.)", "No."]);
}

#[test]
fn ellipses() {
    divided("en", " ", &["Well...", "Yes.", "He waited…", "Then he left."]);
    whole("en", "Well... yes, he waited . . . and … left.");
    divided("en", " ", &["Wait . . .", "Nobody came."]);
    divided("en", " ", &["He said: “We go. . . .”", "Then he left."]);
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
    // Armenian is often typed with a colon, which otherwise ends no sentence.
    divided("hy", " ", &["Բարև Ձեզ:", "Իմ անունն Արմինե է:", "1-ն է:", "2-րդ օրը...:"]);
    divided("", " ", &["Բարև Ձեզ:", "Իմ անունն է 10:30 http://a.am/b:"]);
    divided("hy", " ", &["Կատուն: Շունը այստեղ է։", "Որտե՞ղ է։"]);
    whole("hy", "Կատուն այստեղ է: իսկ շունը՝ ոչ");
    whole("en", "Note: The cat sleeps: It is late");
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
        "[1]", ".[1", "—", "\u{a0}.", "z. B. ", "-", "'", ",,", "1.) ", "1. A ", "a. A ", "• ",
        "°", "a: ", "Ա: ", "\" (a). ", "\" (", "iv. ", "- 1) ",
    ];
    for pattern in patterns {
        for prefix in ["", "A.", "A. ", "(", "«", "?", "1. ", "• ", "a) ", "Ա: "] {
            let text = format!("{prefix}{}", pattern.repeat(2000));
            let line = Line::new(&text, Marks::of(&text, false));
            let brackets = Brackets::of(&text, 0);
            let (mut start, mut steps, mut list) = (0, 0, None);
            while start < text.len() {
                let language = Language::of(Some("da"));
                let end = rules::sentence_end(&line, start, language, &brackets, &mut list);
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
