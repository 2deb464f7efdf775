module larder

go 1.24
