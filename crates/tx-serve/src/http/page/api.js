// Requests to the server. All of them can be aborted.

export class ApiError extends Error {}

// The key stays in this browser.
export const key = {
  get: () => localStorage.getItem("key") ?? "",
  set: (value) => value ? localStorage.setItem("key", value) : localStorage.removeItem("key"),
};

function headers() {
  return key.get() ? { "X-API-Key": key.get() } : {};
}

async function checked(response) {
  if (response.ok) return response;
  let message = `error ${response.status}`;
  try {
    message = (await response.json()).error ?? message;
  } catch { /* no JSON */ }
  throw new ApiError(message);
}

export async function languages() {
  return (await checked(await fetch("languages"))).json();
}

export async function settings() {
  return (await checked(await fetch("frontend/settings"))).json();
}

async function post(path, body, signal) {
  return checked(await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...headers() },
    body: JSON.stringify(body),
    signal,
  }));
}

// Calls `onEvent(name, data)` for each event of a streamed translation.
export async function stream(request, signal, onEvent) {
  const response = await post("v1/translate", { ...request, stream: true }, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const events = rest.split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const name = /^event: (.*)$/m.exec(event)?.[1];
      const data = /^data: (.*)$/m.exec(event)?.[1];
      if (name && data) onEvent(name, JSON.parse(data));
    }
  }
}

export async function details(request, alternatives, signal) {
  const response = await post("v1/translate", { ...request, alignment: true, confidence: true, alternatives }, signal);
  return (await response.json()).translations[0];
}

export async function file(content, source, target) {
  const form = new FormData();
  form.append("file", content);
  form.append("source", source);
  form.append("target", target);
  const response = await checked(await fetch("translate_file", { method: "POST", headers: headers(), body: form }));
  const { translatedFileUrl } = await response.json();
  // The path only: behind a proxy, the server may not know its own address.
  const path = new URL(translatedFileUrl, location.href).pathname;
  return path.slice(path.indexOf("download_file/"));
}
