# The Makefile sets no variable of PGXS but those that PGXS reads from it: a recipe whose target is named by, say,
# INSTALL_SCRIPT would write over the system's install program.
. "$RPQ_ROOT/test/lib/tap.sh"

pgxs=$(dirname "$(dirname "$("$PG_CONFIG" --pgxs)")")
meant='DATA DATA_built EXTENSION EXTRA_CLEAN MODULE_big OBJS PGXS PG_CFLAGS PG_CONFIG PG_CPPFLAGS'
clash=
for v in $(sed -n 's/^\([A-Za-z_]*\) *[:?+]\{0,1\}=.*/\1/p' "$RPQ_ROOT/Makefile" | sort -u); do
	case " $meant " in *" $v "*) continue ;; esac
	grep -qE "(^|[^A-Za-z_])$v([^A-Za-z_]|\$)" "$pgxs"/Makefile.global "$pgxs"/Makefile.shlib \
		"$pgxs"/Makefile.port "$pgxs"/makefiles/pgxs.mk && clash+=" $v"
done
is "$clash" "" "no variable of the Makefile is one of PGXS"
done_testing
