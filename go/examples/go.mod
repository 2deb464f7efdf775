module larder.example/larder/examples

go 1.26.0

require larder.example/larder v0.0.0

require github.com/mattn/go-sqlite3 v1.14.53

replace larder.example/larder => ../
