// Keeps the page for use without a network.

const PAGE = "page-4";

/** Module for this browser, which the page knows. */
const MODULE = new URL(self.location.href).searchParams.get("module");

const FILES = [
  "./", "app.js", "models.js", "style.css", "web.css", "icon.svg", "manifest.webmanifest",
  "inside.html", "inside-app.js", "inside/inside.js", "inside/beam.js", "inside/plots.js", "inside/stages.js", "inside/tours.js", "inside/inside.css",
  "txmt/index.js", "txmt/engine.js", "txmt/files.js", "txmt/worker.js", `txmt/${MODULE}`,
];

/** Models that the site lists; it need not have any. */
const LIST = "models.json";

self.addEventListener("install", (event) => {
  self.skipWaiting();
  const keep = async (cache) => {
    await cache.addAll(FILES);
    await cache.add(LIST).catch(() => {});
  };
  event.waitUntil(caches.open(PAGE).then(keep));
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

const ADDRESSES = new Set([...FILES, LIST].map((name) => new URL(name, self.location.href).href));

// Files of the page: from the network while there is one, so that they belong together.
self.addEventListener("fetch", (event) => {
  if (ADDRESSES.has(event.request.url.replace(/[?#].*$/, ""))) event.respondWith(answer(event.request));
});

async function answer(request) {
  try {
    const response = await fetch(request);
    if (response.ok) await (await caches.open(PAGE)).put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await caches.match(request, { cacheName: PAGE, ignoreSearch: true, ignoreVary: true });
    if (kept) return kept;
    if (request.url === new URL(LIST, self.location.href).href) return Response.json([]);
    throw error;
  }
}
