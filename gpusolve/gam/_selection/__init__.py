"""What decides how complex a model is: degrees of freedom, error bounds."""
