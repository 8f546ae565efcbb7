use std::{
    fs,
    process::{Command, Stdio},
};

use crate::Workshop;

#[test]
fn a_missing_file_is_named_with_its_cause() {
    let workshop = Workshop::new();
    let files = ["--source", "no/such.txt", "--target", "target.txt.gz"];
    let run = workshop.train_tiny_on(&files, "run", &[]);
    run.failed(1, &["cannot read `no/such.txt`: No such file"]);
    workshop.train(&["--config", "no.toml"]).failed(1, &["cannot read `no.toml`: No such file"]);
}

#[test]
fn an_empty_file_is_refused() {
    let workshop = Workshop::new();
    workshop.write("empty.txt", "");
    let files = ["--source", "empty.txt", "--target", "empty.txt"];
    workshop.train_tiny_on(&files, "run", &[]).failed(1, &["`empty.txt` is empty"]);
}

#[test]
fn sides_of_different_length_are_refused_with_both_numbers() {
    let workshop = Workshop::new();
    workshop.append("source.txt", "one more\n");
    let run = workshop.train_tiny("run", &[]);
    run.failed(1, &["`source.txt` has 37 lines, but `target.txt.gz` has 36", "hint: "]);
}

#[test]
fn invalid_utf8_is_named_by_file_and_line() {
    let workshop = Workshop::new();
    workshop.write("latin1.txt", b"piu\npi\xf9\n");
    let files = ["--source", "latin1.txt", "--target", "target.txt.gz"];
    let run = workshop.train_tiny_on(&files, "run", &[]);
    run.failed(1, &["`latin1.txt` line 2 is not valid UTF-8", "hint: ", "iconv"]);
}

#[test]
fn a_broken_gzip_and_a_line_without_a_tab_are_refused() {
    let workshop = Workshop::new();
    let whole = fs::read(workshop.path("target.txt.gz")).unwrap();
    workshop.write("target.txt.gz", &whole[..whole.len() - 9]);
    workshop.train_tiny("run", &[]).failed(1, &["cannot read `target.txt.gz`"]);
    workshop.write("pairs.tsv", "one\tuno\ntwo due\n");
    let run = workshop.train_tiny_on(&["--file", "pairs.tsv"], "run", &[]);
    run.failed(1, &["`pairs.tsv` line 2: 1 tab-separated columns"]);
}

#[test]
fn a_corpus_without_usable_pairs_is_refused_with_counts() {
    let workshop = Workshop::new();
    // Two words and `<eos>` are 3 source tokens, with `<bos>` 4 target tokens.
    let run = workshop.train_tiny("run", &["--set", "data.max_len=3"]);
    run.failed(
        1,
        &["no usable sentence pair in the training data", "longer than 3 tokens", "hint"],
    );
}

#[test]
fn a_folder_with_a_run_is_not_overwritten() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &["--set", "train.epochs=1"]).trained();
    let before = workshop.weights("run");
    let run = workshop.train_tiny("run", &["--set", "train.seed=2"]);
    let train = env!("CARGO_BIN_EXE_train");
    let hint = format!("hint: resume it with `{train} --resume run`");
    run.failed(1, &["`run` already contains a run", &hint]);
    assert_eq!(workshop.weights("run"), before);
}

#[test]
fn a_folder_without_a_run_cannot_be_resumed() {
    let workshop = Workshop::new();
    workshop.train(&["--resume", "no/run"]).failed(1, &["`no/run` contains no run to resume"]);
    // Only the best model is left, which a new run must not overwrite.
    workshop.train_tiny("run", &["--set", "train.max_steps=1"]).trained();
    fs::remove_dir_all(workshop.path("run/checkpoints")).unwrap();
    let run = workshop.train(&["--resume", "run"]);
    run.failed(1, &["`run` contains no run to resume", "no checkpoint yet", "hint: ", "`--run`"]);
    let run = workshop.train_tiny("run", &[]);
    run.failed(1, &["`run` already contains a run", "hint: choose another folder with `--run`"]);
}

/// The weights belong to the ids of the tokenizers.
#[test]
fn a_run_without_its_tokenizers_is_not_resumed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    fs::remove_file(workshop.path("run/target.tokenizer.json")).unwrap();
    let run = workshop.train(&["--resume", "run"]);
    run.failed(1, &["`run` contains no run to resume: its tokenizers", "are missing", "hint: "]);
}

#[test]
fn a_run_whose_data_has_changed_is_not_resumed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let text = fs::read_to_string(workshop.path("source.txt")).unwrap();
    workshop.write("source.txt", text.replace("one two", "one too"));
    let run = workshop.train(&["--resume", "run", "--set", "train.epochs=3"]);
    run.failed(1, &["the training data has changed since the checkpoint", "`--take new`"]);
    let run = workshop.train(&["--resume", "run", "--set", "train.epochs=3", "--take", "old"]);
    run.failed(1, &["the training data has changed since the checkpoint"]);
    workshop.train(&["--resume", "run", "--set", "train.epochs=3", "--take", "new"]).trained();
    // The new data is now the data of the run.
    workshop.train(&["--resume", "run"]).trained();
}

#[test]
fn a_run_whose_configuration_has_changed_is_not_resumed() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let path = workshop.path("run/train.toml");
    let text = fs::read_to_string(&path).unwrap();
    let text = text.replace("epochs = 2\n", "epochs = 3\n").replace("seed = 1\n", "seed = 7\n");
    fs::write(&path, &text).unwrap();
    let run = workshop.train(&["--resume", "run"]);
    run.failed(1, &["train.toml` has changed since the checkpoint", "hint: `--take new`"]);
    run.logged(&["`train.epochs` = 3, was 2", "`train.seed` = 7, was 1"]);
    assert_eq!(run.stderr.matches(", was ").count(), 2, "{}", run.stderr);
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "a rejected file is not changed");

    let run = workshop.train(&["--resume", "run", "--take", "old"]).trained();
    run.logged(&["resuming after epoch 2"]);
    assert!(!run.stderr.contains("epoch 3"), "the run was complete: {}", run.stderr);
    assert!(fs::read_to_string(&path).unwrap().contains("epochs = 2\n"));
    fs::write(&path, &text).unwrap();
    let run = workshop.train(&["--resume", "run", "--take", "new"]).trained();
    run.logged(&["resuming after epoch 2", "step 12"]);
    workshop.train(&["--resume", "run"]).trained();
}

#[test]
fn a_checkpoint_of_another_model_is_refused() {
    let workshop = Workshop::new();
    workshop.train_tiny("run", &[]).trained();
    let run = workshop.train(&["--resume", "run", "--set", "model.d_ff=24"]);
    run.failed(1, &["run/checkpoints/step-8/model-8.bpk", "cannot be used"]);
}

#[test]
fn damaged_checkpoints_are_refused_and_the_previous_one_is_offered() {
    let workshop = Workshop::new();
    let keep = ["--set", "checkpoint.keep_last=2", "--set", "checkpoint.every=3 steps"];
    workshop.train_tiny("run", &keep).trained();
    let resume = || workshop.train(&["--resume", "run"]);
    let hint = "hint: resume from the checkpoint before it with `--step 6`";
    for part in ["model-8.bpk", "optim-8.bpk", "scheduler-8.bpk", "state.toml"] {
        let path = workshop.path("run/checkpoints/step-8").join(part);
        let whole = fs::read(&path).unwrap();
        let ruined: Vec<u8> = whole.iter().map(|byte| byte ^ 0x55).collect();
        for damaged in [&whole[..whole.len() / 2], &ruined, &[]] {
            fs::write(&path, damaged).unwrap();
            resume().failed(1, &[part, "cannot be used", hint]);
        }
        fs::remove_file(&path).unwrap();
        resume().failed(1, &[part, "cannot be used", hint]);
        fs::write(&path, whole).unwrap();
    }
    resume().trained();
    workshop.write("run/train.toml", "[train]\nepochs = 3\nepochs = 4\n");
    resume().failed(2, &["`run/train.toml`", "line 3"]);
}

/// Names or ranks in a file of a checkpoint are changed, and all hashes are made to match.
#[test]
fn a_checkpoint_with_other_tensors_and_matching_hashes_is_refused() {
    use sha2::{Digest, Sha256};

    let hash = |bytes: &[u8]| -> String {
        Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let workshop = Workshop::new();
    workshop.train_tiny("run", &["--set", "model.d_ff=32"]).trained();
    let folder = workshop.path("run/checkpoints/step-8");
    let state = fs::read_to_string(folder.join("state.toml")).unwrap();
    let renamed = |whole: &[u8], name: &[u8], other: &[u8]| {
        let mut renamed = whole.to_vec();
        let places: Vec<usize> =
            (0..whole.len()).filter(|&at| whole[at..].starts_with(name)).collect();
        places.iter().for_each(|&at| renamed[at..][..other.len()].copy_from_slice(other));
        (places.len(), renamed)
    };
    // In CBOR, [n, m] with n < 24 ≤ m < 256 is 82 n 18 m, and [n m] is 81 19 and n m in two bytes.
    let flattened = |whole: &[u8]| {
        let mut flattened = whole.to_vec();
        let is_shape =
            |bytes: &[u8]| bytes.starts_with(b"shape\x82") && bytes[6] < 24 && bytes[7] == 0x18;
        let places = 0..whole.len().saturating_sub(8);
        let places: Vec<usize> = places.filter(|&at| is_shape(&whole[at..])).collect();
        for at in &places {
            let count = u16::from(whole[at + 6]) * u16::from(whole[at + 8]);
            let [high, low] = count.to_be_bytes();
            flattened[at + 5..at + 9].copy_from_slice(&[0x81, 0x19, high, low]);
        }
        (places.len(), flattened)
    };
    type Change<'a> = &'a dyn Fn(&[u8]) -> (usize, Vec<u8>);
    let changes: [(&str, Change<'_>); 4] = [
        ("model-8.bpk", &|whole| renamed(whole, b"gamma", b"gamme")),
        ("optim-8.bpk", &|whole| renamed(whole, b"param_id", b"param_ie")),
        ("model-8.bpk", &flattened),
        ("optim-8.bpk", &flattened),
    ];
    for (part, change) in changes {
        let path = folder.join(part);
        let whole = fs::read(&path).unwrap();
        let (count, changed) = change(&whole);
        assert!(count > 0, "{part}");
        fs::write(&path, &changed).unwrap();
        let (_, body) = state.split_once('\n').unwrap();
        let body = body.replace(&hash(&whole), &hash(&changed));
        let first = format!("# SHA-256 of what follows: {}\n", hash(body.as_bytes()));
        fs::write(folder.join("state.toml"), first + &body).unwrap();
        workshop.train(&["--resume", "run"]).failed(1, &[part, "cannot be used"]);
        fs::write(&path, whole).unwrap();
        fs::write(folder.join("state.toml"), &state).unwrap();
    }
    workshop.train(&["--resume", "run"]).trained();
}

/// One bit is flipped at each of 100 positions in the files of a checkpoint.
#[test]
fn a_checkpoint_with_a_flipped_bit_is_refused() {
    let workshop = Workshop::new();
    let keep = ["--set", "checkpoint.keep_last=2", "--set", "checkpoint.every=3 steps"];
    workshop.train_tiny("run", &keep).trained();
    let hint = "hint: resume from the checkpoint before it with `--step 6`";
    let files = ["model-8.bpk", "optim-8.bpk", "scheduler-8.bpk", "state.toml"];
    let mut random = 1_u64;
    for round in 0..100 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let file = files[round % files.len()];
        let path = workshop.path("run/checkpoints/step-8").join(file);
        let whole = fs::read(&path).unwrap();
        let mut damaged = whole.clone();
        let bit = (random >> 20) as usize % (8 * whole.len());
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, damaged).unwrap();
        workshop.train(&["--resume", "run"]).failed(1, &[file, "cannot be used", hint]);
        fs::write(&path, whole).unwrap();
    }
    workshop.train(&["--resume", "run"]).trained();
}

/// A file system of 600 kB has room for some files of the run.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_run_and_keeps_existing_files() {
    let workshop = Workshop::new();
    fs::create_dir(workshop.path("small")).unwrap();
    let small = workshop.path("small");
    let mount = |size: &str| {
        let options = ["-t", "tmpfs", "-o", size, "tmpfs"];
        Command::new("mount").args(options).arg(&small).stderr(Stdio::null()).status()
    };
    if !mount("size=600k").is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: this user may not mount a small file system");
        return;
    }
    let keep = ["--set", "checkpoint.keep_last=100", "--set", "checkpoint.every=1 step"];
    let run =
        workshop.train_tiny("small/run", &[&keep[..], &["--set", "train.epochs=50"]].concat());
    run.failed(1, &["cannot write `small/run/", "No space left on device"]);
    // With more room the run resumes from the last complete checkpoint.
    assert!(mount("remount,size=64m").unwrap().success());
    let run = workshop.train(&["--resume", "small/run", "--set", "train.epochs=3"]);
    assert!(Command::new("umount").arg(&small).status().unwrap().success());
    run.trained().logged(&["resuming after epoch "]);
}

#[test]
fn a_run_folder_that_cannot_be_written_is_named() {
    let workshop = Workshop::new();
    workshop.write("file", "not a folder");
    workshop.train_tiny("file/run", &[]).failed(1, &["cannot write `file/run"]);
}

#[test]
fn a_read_only_run_folder_is_named() {
    let workshop = Workshop::new();
    let folder = workshop.path("locked");
    fs::create_dir(&folder).unwrap();
    let mut permissions = fs::metadata(&folder).unwrap().permissions();
    permissions.set_readonly(true);
    fs::set_permissions(&folder, permissions).unwrap();
    if fs::write(folder.join("probe"), "").is_ok() {
        eprintln!("SKIPPED: this user (root?) may write into read-only folders");
        return;
    }
    workshop.train_tiny("locked/run", &[]).failed(1, &["cannot write `locked/run"]);
}
