SELECT handmade.submit('p1', 1, 1, 4);
