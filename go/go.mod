module larder.example/larder

go 1.26.0
