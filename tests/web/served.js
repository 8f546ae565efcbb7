// Uses the page that `translate serve --offline` serves in one browser, and goes on without the server:
// node served.js chrome|firefox EXECUTABLE PAGE PROGRAM

const assert = require("node:assert");
const { spawn } = require("node:child_process");
const path = require("node:path");
const { launch, until: waitUntil } = require("../browser.js");

const [browserName, executablePath, folder, program] = process.argv.slice(2);
const BUNDLE = path.join(__dirname, "../fixtures/bundle-v1");

/** Starts the server, and returns it with its address. */
function start() {
  const arguments_ = ["serve", "--model", `en-it=${BUNDLE}`, "--listen", "127.0.0.1:0", "--offline", folder, "--offline-model", "en-it"];
  const server = spawn(program, arguments_, { stdio: ["ignore", "ignore", "pipe"] });
  return new Promise((resolve, reject) => {
    let log = "";
    server.stderr.on("data", (data) => {
      log += data;
      const [, url] = log.match(/"url":"([^"]*)"/) ?? [];
      if (url) resolve([server, url]);
    });
    server.on("exit", () => reject(new Error(log)));
  });
}

async function main() {
  const [server, url] = await start();
  const { browser, page, faults } = await launch(browserName, executablePath);
  const until = (condition, value) => waitUntil(page, condition, value);
  const translation = async (text) => {
    const body = JSON.stringify({ q: text, source: "en", target: "it" });
    const response = await fetch(`${url}translate`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    return (await response.json()).translatedText;
  };
  const texts = ["the cat sleeps .", "the dog eats the bread"];
  const expected = await Promise.all(texts.map(translation));

  await page.goto(url);
  await page.waitForSelector("body[data-ready=true]");
  await Promise.all([page.waitForNavigation(), page.click("#offline")]);
  await page.waitForSelector("body[data-ready=true]");
  // The page can have models of its own.
  const number = await page.$$eval("#model option", (found) => found.find(({ textContent }) => textContent === "en-it").value);
  await page.select("#model", number);
  await until(() => document.getElementById("status").textContent.includes("translate, 1 + 2 layers"));
  const type = async (text) => {
    await page.$eval("#text", (box, text) => { box.value = text; box.dispatchEvent(new Event("input")); }, text);
    await until(() => document.getElementById("output").textContent !== "" && !document.getElementById("output").classList.contains("stale"));
    return await page.$eval("#output", ({ textContent }) => textContent);
  };
  await page.select("#beam", "4");
  assert.equal(await type(texts[0]), expected[0]);
  await page.evaluate(async () => { await navigator.serviceWorker.ready; });
  await new Promise((resume) => setTimeout(resume, 500));
  server.removeAllListeners("exit");
  server.kill("SIGKILL");
  assert.equal(await type(texts[1]), expected[1]);
  await page.reload();
  await page.waitForSelector("body[data-ready=true]");
  await until(() => document.getElementById("status").textContent.includes("translate, 1 + 2 layers"));
  assert.equal(await type(texts[0]), expected[0]);

  assert.deepEqual(faults.filter((fault) => !/404|Failed to load resource/.test(fault)), []);
  await browser.close();
  console.log(`${browserName}: ok`);
}

main().catch((error) => { console.error(error); process.exit(1); });
