SELECT rpq.submit('p1', workload_type => 'batch', resources => 'gpu=1,cpu=4');
