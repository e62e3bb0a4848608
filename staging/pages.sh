#!/bin/sh
# Serve the pages of a store: pages.sh STORE PORT. Writes them again whenever a session has ended, at most once in
# INTERVAL seconds (30). Nothing is written into the store.
set -eu
store=$1 port=$2
pages=$(mktemp -d)

write() {
    # The exit code of both says what they found; here it counts only whether there are pages.
    chaoskit report --dir "$store" -o "$pages" >/dev/null || true
    chaoskit history --dir "$store" -o "$pages/history.html" --metrics "$pages/metrics.txt" >/dev/null || true
}

echo "Nothing has run yet: docker compose run --rm chaoskit run ..." > "$pages/index.html"
python -m http.server "$port" --directory "$pages" &
server=$!
trap 'kill "$server"' EXIT
trap 'exit 0' INT TERM

last=
while kill -0 "$server"; do
    # A suite is a file that grows while its session runs.
    now=$(ls -l "$store/suites" 2>/dev/null || true)
    if [ "$now" != "$last" ] && [ -n "$now" ]; then
        last=$now
        write
    fi
    sleep "${INTERVAL:-30}" & wait $!
done
