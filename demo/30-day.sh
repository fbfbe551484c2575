# A working day in half a minute: psql sessions submit, two others play the executors, the worker decides.
set -u
workloads=${DEMO_WORKLOADS:-3000}
seconds=${DEMO_SECONDS:-30}
psql="psql -Xq -v ON_ERROR_STOP=1 -v workloads=$workloads -v seconds=$seconds"

cat <<END

3. A day.  $workloads workloads from 08:00 to 18:00, in $seconds s.  Four sessions of two web portals submit for their users,
   two sessions play the executors and report what has started and finished; the worker admits and places.

END
$psql -f day.psql || exit 1
pids=()
for session in 1 2 3 4; do
	[ $session = 4 ] && portal=campus || portal=portal
	$psql -U $portal -v session=$session -o /dev/null -f client.psql &
	pids+=($!)
done
executors=()
for who in olga rector; do
	$psql -U $who -f executor.psql &
	executors+=($!)
done
status=0
for pid in "${pids[@]}"; do wait "$pid" || status=1; done
$psql -f evening.psql || status=1
for pid in "${executors[@]}"; do wait "$pid" || status=1; done
$psql -f settle.psql || status=1
exit $status
