\set n :n + 1
\set id :first + :client_id * :each + :n
\if :n <= :each
SELECT rpq.report_finished(:id);
\else
\sleep 100 ms
\endif
