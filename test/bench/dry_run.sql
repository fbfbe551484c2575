SELECT count(*) FROM rpq.schedule('p1', dry_run => true);
