# docs/clusters.md: the rights of a role that did not create the schema.
# needs: postgres
deploy=${POSTGRES_URL/admin@/deploy@}
tenure run --space "$POSTGRES_URL" book -- true
psql -Xq -v ON_ERROR_STOP=1 -c 'CREATE ROLE deploy LOGIN' "$POSTGRES_URL"
if tenure run --space "$deploy" book -- true; then
  echo "a role without rights can lock"
  exit 1
fi
psql -Xq -v ON_ERROR_STOP=1 "$POSTGRES_URL" <<'SQL'
# SNIPPET
SQL
tenure run --space "$deploy" book -- true
tenure doctor --space "$deploy"
