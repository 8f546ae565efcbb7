//! A translation server in thirty lines: each line that a client sends is answered by a line.
//!
//! `cargo run -p tx-infer --example serve_lines -- FOLDER 127.0.0.1:7000`

use std::{
    env,
    error::Error,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use tx_infer::{Device, Translator};

/// Maximum number of bytes that a client may send, because a line could be endless.
const MAX_BYTES: u64 = 1 << 20;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let (Some(folder), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: serve_lines FOLDER ADDRESS".into());
    };
    let translator = Translator::open(folder, &Device::Cpu)?;
    for client in TcpListener::bind(address)?.incoming() {
        // Clones share weights and threads, and take turns batch by batch.
        let (client, translator) = (client?, translator.clone());
        thread::spawn(move || {
            // A client that leaves, or sends no text, ends its own thread only.
            let _ = answer(&client, &translator);
        });
    }
    Ok(())
}

fn answer(mut client: &TcpStream, translator: &Translator) -> Result<(), Box<dyn Error>> {
    for line in BufReader::new(client.take(MAX_BYTES)).lines() {
        writeln!(client, "{}", translator.translate(&line?)?.text)?;
    }
    Ok(())
}
