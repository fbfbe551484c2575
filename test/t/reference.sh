# doc/reference.md is what the COMMENTs say now; make reference renews it.
. "$RPQ_ROOT/test/lib/tap.sh"
"$RPQ_ROOT/scripts/reference" > "$TMPDIR/reference.md"
ok $? 'the page is made'
differs=$(diff "$RPQ_ROOT/doc/reference.md" "$TMPDIR/reference.md" | head -n 20)
is "$differs" '' 'doc/reference.md is up to date (make reference renews it)'
like "$(cat "$TMPDIR/reference.md")" '### submit.*### workloads.*rpq.databases' 'it has functions, views and settings'
done_testing
