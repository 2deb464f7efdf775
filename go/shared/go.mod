module larder.example/larder/shared

go 1.26.0

require larder.example/larder v0.0.0

replace larder.example/larder => ../
