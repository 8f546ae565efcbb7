-- Script of wrk: sentences in turn from the file TX_SENTENCES, TX_BATCH [default: 1] a request. With TX_DELAY, each
-- connection waits that many milliseconds between its requests.
local sentences = {}
for line in io.lines(os.getenv("TX_SENTENCES")) do
  sentences[#sentences + 1] = line:gsub("\\", "\\\\"):gsub('"', '\\"')
end
local headers = { ["Content-Type"] = "application/json" }
local batch = tonumber(os.getenv("TX_BATCH") or 1)
local pair = ',"source":"' .. os.getenv("TX_SOURCE") .. '","target":"' .. os.getenv("TX_TARGET") .. '"}'
local next = 0

function init()
  -- The threads of wrk start at different sentences.
  math.randomseed(tonumber(tostring({}):match("0x(%x+)"), 16) % 2147483647)
  next = math.random(#sentences)
end

function request()
  local texts = {}
  for i = 1, batch do
    next = next % #sentences + 1
    texts[i] = '"' .. sentences[next] .. '"'
  end
  local q = table.concat(texts, ",")
  if batch > 1 then
    q = "[" .. q .. "]"
  end
  return wrk.format("POST", "/translate", headers, '{"q":' .. q .. pair)
end

if os.getenv("TX_DELAY") then
  function delay()
    return tonumber(os.getenv("TX_DELAY"))
  end
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "requests/s %.1f  p50 %.1f ms  p95 %.1f ms  p99 %.1f ms  errors %d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1000,
    latency:percentile(95) / 1000, latency:percentile(99) / 1000,
    errors.status + errors.timeout + errors.read + errors.write + errors.connect))
end
