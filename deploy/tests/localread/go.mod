module larder.test/localread

go 1.26.0

require larder.example/larder v0.0.0

replace larder.example/larder => ../../../go
