#!/usr/bin/env bash
# The commands of LibreTranslate's documentation, with the languages of the test bundle.
set -euo pipefail
expect() {
    local pattern=$1
    shift
    local answer
    answer=$(curl --silent --show-error "$@")
    if ! [[ $answer =~ $pattern ]]; then
        echo "unexpected answer to: curl $*"
        echo "$answer"
        exit 1
    fi
}
json='Content-Type: application/json'
expect '^\{"translatedText":"[^"]+"\}$' -X POST "${TX_URL}translate" -H "$json" \
    -d '{"q": "the cat sleeps .", "source": "en", "target": "it"}'
expect '"detectedLanguage":\{"confidence":[0-9.]+,"language":"en"\}' -X POST "${TX_URL}translate" -H "$json" \
    -d '{"q": "the cat is sleeping in the house", "source": "auto", "target": "it"}'
expect '<p class=.*</p>' -X POST "${TX_URL}translate" -H "$json" \
    -d '{"q": "<p class=\"green\">the cat</p>", "source": "en", "target": "it", "format": "html"}'
expect '"alternatives":\[' -X POST "${TX_URL}translate" -H "$json" \
    -d '{"q": "the cat", "source": "en", "target": "it", "format": "text", "alternatives": 3}'
expect '"translatedText"' "${TX_URL}translate" -d q=the -d source=en -d target=it
expect '^\[\{"confidence":' -X POST "${TX_URL}detect" -H "$json" -d '{"q": "the cat is in the house"}'
expect '"code":"en"' "${TX_URL}languages"
expect '"status":"ok"' "${TX_URL}health"
expect '"charLimit"' "${TX_URL}frontend/settings"
expect '"openapi"' "${TX_URL}spec"
expect '"error":"Invalid request: missing q parameter"' -X POST "${TX_URL}translate" -H "$json" -d '{}'
file=$(mktemp --suffix .txt)
trap 'rm -f "$file"' EXIT
echo 'the cat sleeps .' > "$file"
url=$(curl --silent -F "file=@$file" -F source=en -F target=it "${TX_URL}translate_file" | sed 's/.*"translatedFileUrl":"\([^"]*\)".*/\1/')
expect '.' "$url"
echo "curl: ok"
