module larder/shared

go 1.24

require larder v0.0.0

replace larder => ../
