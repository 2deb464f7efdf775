module larder.example/larder/shared

go 1.24

require larder.example/larder v0.0.0

replace larder.example/larder => ../
