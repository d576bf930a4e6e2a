print("python runs")
