# docs/workflows.md: the views of workflows, with a tool of SQLite's. The rows are those of a
# workflow that ended: its record, and the result of its step.
tenure run --space sqlite:app.db book -- true
zeros=$(printf '00%.0s' 1 2 3 4 5 6 7 8)
time=17979cfe362a0000
record=0102$zeros$time${time}0000056f726465720000000002 # order, no tags
sqlite3 app.db "INSERT INTO entry VALUES(x'11770000616e6e', x'${record}5b5d023432', 1, 1)"
sqlite3 app.db "INSERT INTO entry VALUES(x'116c00000003616e6e00000000',
  x'0101$time${zeros}000101066368617267653432', 2, 2)"
cat >look.sh <<'LOOK'
# SNIPPET
LOOK
sh look.sh >seen
grep -q '^ann|order|completed|2023-11-1.*|42$' seen
grep -q '^0|2023-11-1.*|step done|charge|1|42$' seen
