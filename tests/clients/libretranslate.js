// The npm client of LibreTranslate.

const assert = require("node:assert");
const { translate } = require("libretranslate");

const apiurl = process.env.TX_URL.replace(/\/$/, "");
(async () => {
  const text = await translate({ query: "the cat sleeps .", source: "en", target: "it", apiurl });
  assert.ok(typeof text === "string" && text.length > 0, text);
  const html = await translate({ query: "<b>the cat</b>", target: "it", format: "html", apiurl });
  assert.match(html, /^<b>.*<\/b>$/);
  await assert.rejects(translate({ query: "the cat", source: "en", target: "xx", apiurl }));
  console.log("npm libretranslate: ok");
})();
