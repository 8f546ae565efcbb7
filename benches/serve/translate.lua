-- Script of wrk: one sentence a request, in turn from the file TX_SENTENCES.
local sentences = {}
for line in io.lines(os.getenv("TX_SENTENCES")) do
  sentences[#sentences + 1] = line:gsub("\\", "\\\\"):gsub('"', '\\"')
end
local headers = { ["Content-Type"] = "application/json" }
local pair = '","source":"' .. os.getenv("TX_SOURCE") .. '","target":"' .. os.getenv("TX_TARGET") .. '"}'
local next = 0

function init()
  -- The threads of wrk start at different sentences.
  math.randomseed(tonumber(tostring({}):match("0x(%x+)"), 16) % 2147483647)
  next = math.random(#sentences)
end

function request()
  next = next % #sentences + 1
  return wrk.format("POST", "/translate", headers, '{"q":"' .. sentences[next] .. pair)
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    "requests/s %.1f  p50 %.1f ms  p95 %.1f ms  p99 %.1f ms  errors %d\n",
    summary.requests / (summary.duration / 1e6), latency:percentile(50) / 1000,
    latency:percentile(95) / 1000, latency:percentile(99) / 1000,
    errors.status + errors.timeout + errors.read + errors.write + errors.connect))
end
