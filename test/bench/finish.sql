\set n :n + 1
\set id :first + :client_id * :each + :n
SELECT rpq.report_finished(:id);
