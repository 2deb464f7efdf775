module larder.example/larder

go 1.25.0
