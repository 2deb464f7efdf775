module larder.example/larder

go 1.24
