# docs/guide.md: the views, with a tool of SQLite's.
cat >look.sh <<'LOOK'
# SNIPPET
LOOK
tenure run --space sqlite:app.db book/3 -- sh look.sh >seen
grep -q '^book/3|exclusive|' seen
