def test_a_table_lines_up():
    assert table(["a", "bb"], [["xyz", "1"]]) == ["a    bb", "xyz   1"]
