//! Labels of texts.

use super::*;

pub(super) fn label_columns() -> Columns {
    Columns { target_side: TargetSide::Label, ..Columns::default() }
}

/// Labels of the four rows with a label in `labeled.parquet`, and that of the row without.
fn labels_of(column: &str) -> Vec<String> {
    let columns = Columns { target: Some(column.into()), ..label_columns() };
    let options = ReadOptions { columns, ..ReadOptions::default() };
    let pairs = read(&Path::new(FIXTURES).join("labeled.parquet"), &options).unwrap();
    let texts = pairs.iter().map(|pair| pair.source.clone());
    assert_eq!(texts.collect::<Vec<_>>(), ["text 0", "text 1", "text 2", "text 3", "text 4"]);
    pairs.into_iter().map(|pair| pair.target).collect()
}

#[test]
fn labels_of_a_parquet_file_can_be_integers_or_booleans() {
    let path = Path::new(FIXTURES).join("labeled.parquet");
    let labels = ReadOptions { columns: label_columns(), ..ReadOptions::default() };
    let found = read(&path, &labels).unwrap();
    assert_eq!(found[3], SentencePair::new("text 3", "-1"));
    for column in ["label", "int8", "int32", "3"] {
        assert_eq!(labels_of(column), ["0", "1", "1", "-1", ""], "{column}");
    }
    assert_eq!(labels_of("uint32"), ["0", "1", "1", "4294967295", ""]);
    assert_eq!(labels_of("uint64"), ["0", "1", "1", "18446744073709551615", ""]);
    assert_eq!(labels_of("bool"), ["false", "true", "true", "false", ""]);
    assert_eq!(labels_of("required"), ["true", "false", "true", "true", "false"]);
    for column in ["double", "date", "time"] {
        let columns = Columns { target: Some(column.into()), ..label_columns() };
        let problem = format!("column `{column}` has numbers that are not integers");
        fails(&path, &ReadOptions { columns, ..labels.clone() }, &[&problem]);
    }
    let columns = Columns { source: Some("idx".into()), ..label_columns() };
    fails(&path, &ReadOptions { columns, ..labels }, &["column `idx` has no text"]);
    // Sentences are text.
    let problem = "no column for the target; text columns: `text`";
    fails(&path, &ReadOptions::default(), &[problem]);
}

#[test]
fn labels_of_json_lines_can_be_integers_or_booleans() {
    let folder = Folder::new();
    let text = "{\"id\": 7, \"text\": \"a\", \"label\": 1}\n\
                {\"text\": \"b\", \"label\": true}\n\
                {\"text\": \"c\", \"label\": null}\n\
                {\"text\": \"d\", \"label\": \"1\"}\n\
                {\"text\": \"e\", \"label\": -18446744073709}\n\
                {\"text\": \"f\", \"label\": 18446744073709551615}\n";
    let path = folder.file("labels", text);
    let labels = ReadOptions { columns: label_columns(), ..ReadOptions::default() };
    let found = read(&path, &labels).unwrap();
    let targets: Vec<&str> = found.iter().map(|pair| pair.target.as_str()).collect();
    assert_eq!(targets, ["1", "true", "", "1", "-18446744073709", "18446744073709551615"]);
    assert_eq!(found[0].source, "a");
    let first = r#"{"text": "a", "label": 1}"#;
    for (line, problem) in [
        (r#"{"text": "b", "label": 1.0}"#, "line 2: `label` is the number 1.0, expected text, an "),
        (
            r#"{"text": "b", "label": [1]}"#,
            "line 2: `label` is an array, expected text, an integer",
        ),
        (r#"{"text": 1, "label": 1}"#, "line 2: `text` is a number, expected text"),
    ] {
        fails(&folder.file("labels", format!("{first}\n{line}\n")), &labels, &[problem]);
    }
    let fraction = folder.file("labels", r#"{"text": "a", "label": 0.5}"#);
    fails(
        &fraction,
        &labels,
        &["`label` is the number 0.5, expected text, an integer or a boolean"],
    );
    // Sentences are text.
    let path = folder.file("labels", text);
    fails(&path, &ReadOptions::default(), &["no column for the target; text columns: `text`"]);
}
